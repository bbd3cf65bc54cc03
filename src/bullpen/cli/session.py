"""Runs one use case on an event loop: opens the pool, shows progress, and turns signals into a stop event."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn, TypeVar

from bullpen.cli.output import complain
from bullpen.cli.progress import ProgressDisplay
from bullpen.cli.unix_signals import SIGNALS, finish, hold
from bullpen.config import Settings
from bullpen.errors import FailureCause, Interrupted
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.ports import Ports

T = TypeVar("T")
Work = Callable[[Ports, asyncio.Event, Tell], Awaitable[T]]


def perform(home: Path, settings: Settings, work: Work[T], *, stops: bool = False, as_json: bool = False) -> T:
    """Open the pool at `home`, run `work` on it, and return its result.

    The first signal stops the work: through the event if it `stops` by itself, else by cancelling it, which is as safe
    as a crash. A second signal ends this process at once; the remaining work stands in the records as debts.
    """
    with closing(ProgressDisplay()) as progress:
        try:
            return asyncio.run(_perform(home, settings, work, progress, stops, as_json))
        finally:
            finish()


async def _perform(
    home: Path, settings: Settings, work: Work[T], progress: ProgressDisplay, stops: bool, as_json: bool
) -> T:
    from bullpen.wiring import opened

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    reported: list[ProgressReport] = []

    def show() -> None:
        while reported:
            progress(reported.pop())

    def tell(report: ProgressReport) -> None:
        """Of the places of a provision, which change side by side, show the last report of each pass of the loop."""
        if report.phase is not WorkPhase.ACQUIRE or (reported and reported[0].about != report.about):
            show()
        reported[:] = [report]
        if report.phase is WorkPhase.ACQUIRE:
            loop.call_soon(show)
        else:
            show()

    async def opened_and_done() -> T:
        async with opened(home, settings) as ports:
            return await work(ports, stop, tell)

    task = loop.create_task(opened_and_done())

    def on_signal() -> None:
        if stop.is_set():
            _leave(progress, as_json)
        stop.set()
        text = "stopping: giving everything back (a second signal leaves at once)" if stops else "stopping"
        tell(ProgressReport(WorkPhase.STOP, text))
        if not stops:
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        return await task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        raise Interrupted("interrupted", remedy="Nothing is lost. Run the command again.") from None
    finally:
        show()
        hold()


def _leave(progress: ProgressDisplay, as_json: bool) -> NoReturn:
    progress.close()
    complain(
        "interrupted twice: stopped at once; runners that were not given back are recorded as owed",
        "Run `bullpen release` to give them back now; refresh and later commands do so when it is due.",
        cause=FailureCause.INTERRUPTED,
        as_json=as_json,
    )
    sys.stdout.flush()
    os._exit(Interrupted.exit_code)
