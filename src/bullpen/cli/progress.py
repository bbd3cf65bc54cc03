"""Progress on stderr: a live line on a terminal, elsewhere a line for each new phase and each change of a count.

The live line shows what the last report says and, after two seconds, for how long the command has been working. A
command that reports nothing by then shows that it works. Work that is counted has a bar from then on, where the line
has room for it. `tick` draws the line again; the code that waits calls it.
"""

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from bullpen.cli.output import columns_of, legible, shows_unicode
from bullpen.model.progress import ProgressReport, WorkPhase
from bullpen.structured_log import has_colours

if TYPE_CHECKING:
    from rich.status import Status

TICK = 1.0  # seconds between two calls of `tick`
PATIENCE = 2.0  # seconds without a sign of life that a person does not mind
SPINNER = 2  # columns
WORKING = "working"
BAR = 10  # columns
COUNTED = frozenset({WorkPhase.ACQUIRE, WorkPhase.JOBS, WorkPhase.SYNC, WorkPhase.END})
"""Phases that count what is done; the others name a total at most."""


class ProgressDisplay:
    """Shows progress; call the object with each report. Without any, a terminal shows `text`, if there is one."""

    def __init__(self, stream: TextIO | None = None, text: str = WORKING) -> None:
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._text = text
        self._share: float | None = None
        self._last: tuple[Any, ...] = ()
        self._live: Status | None = None

    def __call__(self, report: ProgressReport) -> None:
        self._text = report.text
        is_counted = report.phase in COUNTED and report.total > 0
        self._share = min(report.done / report.total, 1.0) if is_counted else None
        if self._is_terminal:
            self._show(self._timed())
        else:
            self._print(report)

    def tick(self) -> None:
        """Show that time passes."""
        if self._is_terminal and self._text and time.monotonic() >= self._began + PATIENCE:
            self._show(self._timed())

    def restart(self, text: str) -> None:
        """Begin to wait for something else; nothing is shown until `tick` finds that it takes long."""
        self.close()
        self._text, self._share, self._began = text, None, time.monotonic()

    def close(self) -> None:
        """Restore the terminal."""
        if self._live is not None:
            with suppress(OSError):  # the reader is gone
                self._live.stop()
            self._live = None

    def _timed(self) -> str:
        """The text, cut to the terminal, with the elapsed seconds."""
        elapsed = time.monotonic() - self._began
        suffix = f"; {elapsed:.0f} s" if elapsed >= PATIENCE else ""
        room = columns_of(self._stream) - 1 - SPINNER - len(suffix)
        whole = self._with_bar(legible(self._text, self._stream), room)
        dots = legible("…", self._stream)
        return (whole if len(whole) <= room else whole[: room - len(dots)] + dots) + suffix

    def _with_bar(self, text: str, room: int) -> str:
        """After a bar, if the work is counted and takes long, and both fit."""
        elapsed = time.monotonic() - self._began
        if self._share is None or elapsed < PATIENCE or len(text) + BAR + 1 > room:
            return text
        done = round(self._share * BAR)
        return legible(f"{'█' * done}{'░' * (BAR - done)}", self._stream) + f" {text}"

    def _print(self, report: ProgressReport) -> None:
        this = (report.phase, report.about, report.done, report.total, report.waiting)
        if this != self._last:
            self._last = this
            print(legible(f"bullpen: {report.text}", self._stream), file=self._stream, flush=True)

    def _show(self, line: str) -> None:
        # Loaded with the first line: a command without progress does not wait for rich.
        from rich.console import Console
        from rich.text import Text

        text = Text(line)  # not markup: a reason may contain brackets
        if self._live is None:
            console = Console(file=self._stream, no_color=not has_colours(self._stream))
            self._live = console.status(text, spinner="dots" if shows_unicode(self._stream) else "line")
            self._live.start()
        self._live.update(text)
