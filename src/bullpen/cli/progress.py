"""Progress on stderr: a live line on a terminal, elsewhere a line for each new phase and each change of a count."""

import sys
from typing import TYPE_CHECKING, Any, TextIO

from bullpen.cli.output import legible, shows_unicode
from bullpen.model.progress import ProgressReport
from bullpen.structured_log import has_colours

if TYPE_CHECKING:
    from rich.status import Status


class ProgressDisplay:
    """Shows progress; call the object with each report."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._last: tuple[Any, ...] = ()
        self._live: Status | None = None

    def __call__(self, report: ProgressReport) -> None:
        if self._stream.isatty():
            self._show(report.text)
        else:
            self._print(report)

    def _print(self, report: ProgressReport) -> None:
        this = (report.phase, report.about, report.done, report.total, report.waiting)
        if this != self._last:
            self._last = this
            print(legible(f"bullpen: {report.text}", self._stream), file=self._stream, flush=True)

    def _show(self, line: str) -> None:
        # Loaded with the first line: a command without progress does not wait for rich.
        from rich.console import Console
        from rich.text import Text

        text = Text(legible(line, self._stream))  # not markup: a reason may contain brackets
        if self._live is None:
            console = Console(file=self._stream, no_color=not has_colours(self._stream))
            self._live = console.status(text, spinner="dots" if shows_unicode(self._stream) else "line")
            self._live.start()
        self._live.update(text)

    def close(self) -> None:
        """Restore the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None
