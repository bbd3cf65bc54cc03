"""What ends a provision from outside before it is decided: a stop, and its deadline."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from bullpen.concurrency import Halt, on_event
from bullpen.errors import Interrupted, ProvisionFailed
from bullpen.ports import Clock

Arm = Callable[[Halt], Callable[[], None]]


def halts(stop: asyncio.Event, clock: Clock, deadline: datetime, overdue: ProvisionFailed) -> Arm:
    """For `settle`: halt when asked to stop, and with `overdue` at the deadline."""

    def arm(halt: Halt) -> Callable[[], None]:
        remaining = (deadline - clock.now()).total_seconds()
        timer = asyncio.get_running_loop().call_later(max(remaining, 0), halt, overdue)
        call_off = on_event(stop, lambda: halt(stopped()))

        def disarm() -> None:
            timer.cancel()
            call_off()

        return disarm

    return arm


def stopped() -> Interrupted:
    return Interrupted(
        "stopped before the commit",
        remedy="Nothing is lost: what was acquired is given back or written down as owed. Run it again.",
    )
