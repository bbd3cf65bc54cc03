"""Runs one use case on an event loop: opens what it works on, shows progress, turns signals into a stop event."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing, suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from bullpen.cli.output import complain
from bullpen.cli.progress import TICK, ProgressDisplay
from bullpen.cli.unix_signals import finish, hold, replace_closed, stopping, terminals
from bullpen.config import Settings
from bullpen.errors import FailureCause, Interrupted
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.ports import Ports

P = TypeVar("P")
T = TypeVar("T")
Opened = Callable[[Tell], AbstractAsyncContextManager[P]]
"""Opens what work is done on: the ports of a pool, or a backend."""
Work = Callable[[P, asyncio.Event, Tell], Awaitable[T]]


def perform(
    home: Path,
    settings: Settings,
    work: Work[Ports, T],
    *,
    stops: bool = False,
    as_json: bool = False,
    display: ProgressDisplay | None = None,
) -> T:
    """As `perform_on` the store of the pool at `home`."""
    from bullpen.wiring import opened

    return perform_on(lambda tell: opened(home, settings), work, stops=stops, as_json=as_json, display=display)


def perform_on(
    opened: Opened[P],
    work: Work[P, T],
    *,
    stops: bool = False,
    as_json: bool = False,
    display: ProgressDisplay | None = None,
) -> T:
    """Open a pool, run `work` on it, and return its result. `display` shows the progress, if not the usual one does.

    The first signal stops the work: through the event if it `stops` by itself, else by cancelling it, which is as safe
    as a crash. A second signal ends this process at once; the remaining work stands in the records as debts. A closed
    terminal is no second signal: the system and the shell may both report it.
    """
    with closing(display or ProgressDisplay()) as progress:
        try:
            return asyncio.run(_perform(opened, work, progress, stops, as_json))
        finally:
            finish()


async def _perform(opened: Opened[P], work: Work[P, T], progress: ProgressDisplay, stops: bool, as_json: bool) -> T:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    reported: list[ProgressReport] = []

    def show() -> None:
        while reported:
            with suppress(OSError):  # the reader is gone: the work goes on, and gives back what it holds
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
        async with opened(tell) as pool:
            return await work(pool, stop, tell)

    task = loop.create_task(opened_and_done())

    def on_signal(number: signal.Signals) -> None:
        if number is signal.SIGHUP:
            replace_closed(at_start)
            if stop.is_set():
                return
        if stop.is_set():
            _leave(progress, as_json)
        stop.set()
        if not stops:
            task.cancel()
        text = "stopping: releasing everything (a second signal exits at once)" if stops else "stopping"
        tell(ProgressReport(WorkPhase.STOP, text))

    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK)
            with suppress(OSError):  # the reader is gone
                progress.tick()

    at_start = terminals()
    for number in stopping():
        loop.add_signal_handler(number, on_signal, number)
    ticking = loop.create_task(tick())
    try:
        return await task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        raise Interrupted("interrupted", remedy="Nothing is lost. Run the command again.") from None
    finally:
        ticking.cancel()
        show()
        hold()


def _leave(progress: ProgressDisplay, as_json: bool) -> NoReturn:
    with suppress(OSError):  # the reader is gone
        progress.close()
        complain(
            "interrupted twice: stopped at once; runners that were not given back are recorded as owed",
            "Run `bullpen release --run-id ID` to give them back now; refresh and later commands do so when it is due.",
            cause=FailureCause.INTERRUPTED,
            as_json=as_json,
        )
        sys.stdout.flush()
    os._exit(Interrupted.exit_code)
