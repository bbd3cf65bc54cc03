"""Noted: an order that was carried out is part of the activity, with its operator and the operator's note."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from bullpen.history import activity
from bullpen.operate.outcome import OperateOutcome
from bullpen.ports import Ports

P = ParamSpec("P")
Order = Callable[Concatenate[Ports, P], Coroutine[Any, Any, OperateOutcome]]


def noted(order: Order[P]) -> Order[P]:
    """The same order. A dry run is not noted."""

    @wraps(order)
    async def carried_out(ports: Ports, /, *args: P.args, **kwargs: P.kwargs) -> OperateOutcome:
        outcome = await order(ports, *args, **kwargs)
        if not outcome.dry_run:
            before = f"{outcome.note}; " if outcome.note else ""
            deeds = [replace(one, reason=before + one.reason) for one in outcome.actions]
            await activity.note(ports, f"operator/{kwargs['operator']}", deeds)
        return outcome

    return carried_out
