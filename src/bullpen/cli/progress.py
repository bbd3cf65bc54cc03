"""Progress on stderr while somebody waits: a live line on a terminal, elsewhere a plain line when the phase changes.

A phase also begins when something new is waited for, and when nothing is any longer; not when one thing of several has
come: machines that boot at different speeds would tell of every one.
"""

import re
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from bullpen.cli.output import has_colours

if TYPE_CHECKING:
    from rich.status import Status

# What differs between two ticks of one phase: numbers, and which instances are waited for.
_TICKING = re.compile(r"\b[ip]-[0-9a-f]{16}\b|\d+(\.\d+)?")
_WAITING = "; waiting: "  # and what for, in a list with commas


class Progress:
    """Call it with each line of progress."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._phase = ""
        self._awaited: frozenset[str] = frozenset()
        self._live: Status | None = None

    def __call__(self, line: str) -> None:
        if self._stream.isatty():
            self._show(line)
            return
        phase, _, waits = _TICKING.sub("#", line).partition(_WAITING)
        awaited = frozenset(waits.split(", ")) if waits else frozenset()
        if phase != self._phase or awaited - self._awaited or (self._awaited and not awaited):
            self._phase, self._awaited = phase, awaited
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
