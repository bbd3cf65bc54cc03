"""Progress on stderr while somebody waits: a live line on a terminal, elsewhere a plain line when the phase changes."""

import re
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from bullpen.cli.output import has_colours

if TYPE_CHECKING:
    from rich.status import Status

# What differs between two ticks of one phase: numbers, and which instances are waited for.
_TICKING = re.compile(r"\b[ip]-[0-9a-f]{16}\b|\d+(\.\d+)?")


class Progress:
    """Call it with each line of progress."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._phase = ""
        self._live: Status | None = None

    def __call__(self, line: str) -> None:
        if self._stream.isatty():
            self._show(line)
            return
        phase = _TICKING.sub("#", line)
        if phase != self._phase:
            self._phase = phase
            print(f"bullpen: {line}", file=self._stream, flush=True)

    def _show(self, line: str) -> None:
        # Loaded with the first line: a command that has nothing to tell does not wait for rich.
        from rich.console import Console
        from rich.text import Text

        text = Text(line)  # never markup: a reason may hold brackets
        if self._live is None:
            self._live = Console(file=self._stream, no_color=not has_colours(self._stream)).status(text)
            self._live.start()
        self._live.update(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None
