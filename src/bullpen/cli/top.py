"""`bullpen top`: pools, runs, instances and waits, live, on the whole terminal."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import click

from bullpen.cli.backend import Backend
from bullpen.cli.full_screen import FullScreen, check_terminal
from bullpen.cli.keys import KeyReader
from bullpen.cli.options import PoolOptions, pool_options
from bullpen.cli.output import shows_unicode
from bullpen.cli.progress import ProgressDisplay
from bullpen.cli.top_screen import TopScreen
from bullpen.cli.why_text import why_text
from bullpen.errors import BullpenError, Interrupted, NotFound
from bullpen.model.progress import ProgressReport
from bullpen.schema.queue import QueueAnswer
from bullpen.structured_log import has_colours

EPILOG = """
\b
Examples:
  bullpen top
  bullpen top --home /srv/pool
  bullpen top --server https://bullpen.example.com

Keys: q quits, tab shows the next view, arrows or j and k select, / filters, s sorts, enter shows why, ? lists all. With
NO_COLOR=1 a mark shows the selected row.
"""
EVERY = 1.0  # seconds between two redraws, and between two reads at least
REREAD_AFTER = 5.0  # seconds: heartbeats are no change that wakes
ESCAPE_WAIT = 0.05  # seconds: what follows an escape byte of a key arrives with it
PIECE = 1024  # bytes of keys


@click.command("top", epilog=EPILOG)
@pool_options
@click.pass_obj
def command(given: PoolOptions) -> int:
    """Show pools, runs, instances and waits live, on the whole terminal. Changes nothing.

    The screen is drawn once a second, and only what has changed is sent to the terminal. A large pool is read less
    often: reading takes at most half of the time.
    """
    target = given.target()
    check_terminal()
    screen = FullScreen(has_styles=has_colours(sys.stdout))
    top = TopScreen(unicode=shows_unicode(sys.stdout), is_marked=not has_colours(sys.stdout))
    target.require()
    with suppress(Interrupted):  # a usual way to end it, and so no failure
        target.perform(lambda pool, stop, tell: Terminal(pool, screen, top).show(), display=TopDisplay(screen))
    return 0


class TopDisplay(ProgressDisplay):
    """Shows progress until the screen is entered. A second signal, which ends the process at once, closes it, too."""

    def __init__(self, screen: FullScreen) -> None:
        super().__init__(text="")
        self._screen = screen

    def __call__(self, report: ProgressReport) -> None:
        if not self._screen.is_entered:
            super().__call__(report)

    def tick(self) -> None:
        if not self._screen.is_entered:
            super().tick()

    def close(self) -> None:
        super().close()
        self._screen.leave()


class Terminal:
    """Draws a pool until a key or a signal ends it."""

    def __init__(self, pool: Backend, screen: FullScreen, top: TopScreen) -> None:
        self._pool, self._screen, self._top = pool, screen, top
        self._keys = KeyReader()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._explaining: asyncio.Task[None] | None = None
        self._finding: asyncio.Task[None] | None = None  # of waits, when their view is opened
        self._asked_at: float | None = None  # when the read began that has not ended yet

    async def show(self) -> None:
        self._top.update(await self._pool.status())  # first: its errors are printed as those of every command
        own: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGWINCH: self._wake.set,
            signal.SIGTSTP: self._suspend,
            signal.SIGCONT: self._resume,
        }
        reading = self._loop.create_task(self._keep_reading())
        reading.add_done_callback(lambda task: self._wake.set())
        try:
            self._screen.enter()
            self._loop.add_reader(self._screen.keyboard, self._on_keys)
            for number, react in own.items():
                self._loop.add_signal_handler(number, react)
            while not self._top.quits:
                self._top.silent_for = 0.0 if self._asked_at is None else self._loop.time() - self._asked_at
                self._screen.draw(self._top.frame(datetime.now(UTC), self._screen.size))
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY):
                        await self._wake.wait()
                self._wake.clear()
                if reading.done():
                    reading.result()
                self._explain_what_is_asked()
                if self._top.lacks_waits and self._finding is None:
                    self._finding = self._loop.create_task(self._find_waits())
        finally:
            self._loop.remove_reader(self._screen.keyboard)
            for number in own:
                self._loop.remove_signal_handler(number)
            tasks = [task for task in (reading, self._explaining, self._finding) if task is not None]
            for task in tasks:
                task.cancel()
            self._screen.leave()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_reading(self) -> None:
        while True:
            began = self._asked_at = self._loop.time()
            pause = EVERY
            try:
                self._top.update(await self._pool.status(), await self._waits())
                pause = max(EVERY, self._loop.time() - began)
            except BullpenError as exc:  # the server or the store may come back; a client has tried again for a while
                self._top.trouble = f"not read: {exc}"
            self._asked_at = None
            self._wake.set()
            await asyncio.sleep(pause)
            with suppress(BullpenError):
                await self._pool.wait_for_change(REREAD_AFTER)

    async def _waits(self) -> QueueAnswer | None:
        """None where they are not shown, or a server of an older release does not list them."""
        if not self._top.shows_waits:
            return None
        try:
            return await self._pool.queue()
        except NotFound:
            return None

    async def _find_waits(self) -> None:
        """At once: the next read may be seconds away."""
        with suppress(BullpenError):
            if (queue := await self._waits()) is not None:
                self._top.update_waits(queue)
                self._wake.set()
        self._finding = None

    def _on_keys(self) -> None:
        try:
            received = os.read(self._screen.keyboard, PIECE)
        except OSError:
            received = b""
        if not received:  # the terminal is gone
            self._top.quits = True
        self._press(self._keys.read(received))
        if self._keys.is_waiting:
            self._loop.call_later(ESCAPE_WAIT, lambda: self._press(self._keys.rest()))

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            if key == "redraw":
                self._screen.forget()
            self._top.press(key)
        self._wake.set()

    def _explain_what_is_asked(self) -> None:
        asked, self._top.asked = self._top.asked, ""
        if not asked:
            return
        if self._explaining is not None:
            self._explaining.cancel()
        self._explaining = self._loop.create_task(self._explain(asked))

    async def _explain(self, subject: str) -> None:
        try:
            found = await self._pool.why(subject)
        except BullpenError as exc:
            text = f"{exc}\n{exc.remedy}"
            self._top.explain(subject, lambda width: text)
        else:
            self._top.explain(subject, lambda width: why_text(found, width))
        self._wake.set()

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its terminal back, and this process stops in the middle of this function."""
        self._screen.leave()
        self._loop.remove_signal_handler(signal.SIGTSTP)
        signal.raise_signal(signal.SIGTSTP)
        self._loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        self._resume()

    def _resume(self) -> None:
        """The shell may have changed the terminal meanwhile."""
        self._screen.enter()
        self._wake.set()
