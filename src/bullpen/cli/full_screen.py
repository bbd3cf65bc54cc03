"""The whole terminal: entered and left cleanly, and only what has changed is written.

    enter    alternate screen, no cursor, no line wrap; keys arrive one by one, without echo
    draw     the rows that differ from what is shown, and of a row only what lies between its equal ends
    leave    everything as before; called again it does nothing

Ctrl-C and Ctrl-Z stay signals. What the terminal looked like before stays in `_before`, so that leaving is possible at
any time, also in the middle of an error.
"""

import os
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bullpen.cli.cells import fitted
from bullpen.errors import ConfigError

ENTER = "\033[?1049h\033[?25l\033[?7l\033[2J"
LEAVE = "\033[0m\033[?7h\033[?25h\033[?1049l"
PLAIN, BOLD, SELECTED, ALARM = "", "1", "7", "1;31"  # parameters of SGR
UNKNOWN_SIZE = (80, 24)
NEAR = 8  # equal characters that are written again rather than skipped: an address is as long

Row = tuple[str, str]
"""The text of a row and its style."""


class FullScreen:
    """`has_styles` is False where colours are not wanted."""

    def __init__(self, *, has_styles: bool) -> None:
        self.keyboard, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._has_styles = has_styles
        self._before: list[Any] | None = None
        self._shown: list[Row] = []
        self._size = (0, 0)
        self.written = 0  # bytes, for measurements

    @property
    def is_entered(self) -> bool:
        return self._before is not None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self._output)
        except OSError:
            return UNKNOWN_SIZE
        return (columns or UNKNOWN_SIZE[0], rows or UNKNOWN_SIZE[1])

    def enter(self) -> None:
        if self._before is None:
            self._before = termios.tcgetattr(self.keyboard)
        mode = termios.tcgetattr(self.keyboard)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self.keyboard, termios.TCSADRAIN, mode)
        self._write(ENTER)
        self.forget()

    def leave(self) -> None:
        before, self._before = self._before, None
        if before is None:
            return
        with suppress(OSError):  # the terminal is gone
            self._write(LEAVE)
        with suppress(OSError, termios.error):
            # What was typed and not read is no input of the shell.
            termios.tcsetattr(self.keyboard, termios.TCSAFLUSH, before)

    def forget(self) -> None:
        """Draw everything the next time."""
        self._size = (0, 0)

    def draw(self, rows: Sequence[Row]) -> None:
        """Show these rows, from the top; the others are empty."""
        columns, height = size = self.size
        wanted = [(fitted(text, columns), style if self._has_styles else PLAIN) for text, style in rows[:height]]
        wanted += [(" " * columns, PLAIN)] * (height - len(wanted))
        pieces = []
        if size != self._size:
            self._size, self._shown = size, [(" " * columns, PLAIN)] * height
            pieces.append("\033[0m\033[2J")
        for place, (row, shown) in enumerate(zip(wanted, self._shown, strict=True)):
            if row != shown:
                pieces.append(_difference(place, row, shown))
        self._shown = wanted
        if pieces:
            self._write("".join(pieces))

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "ascii", "replace")
        self.written += len(data)
        while data:
            data = data[os.write(self._output, data) :]


def check_terminal() -> None:
    """Raise ConfigError where there is no terminal to draw on and to read keys from."""
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        found = "TERM is not set" if not os.environ.get("TERM") else "TERM=dumb"
    elif not sys.stdout.isatty():
        found = "stdout is no terminal"
    elif not sys.stdin.isatty():
        found = "stdin is no terminal, and the keys come from there"
    else:
        return
    raise ConfigError(
        f"a terminal is needed to draw on; {found}",
        remedy="Use `bullpen status --watch`, or `bullpen status --json` in a program.",
    )


def _difference(place: int, row: Row, shown: Row) -> str:
    """What to write to change a row. Both texts are as wide as the terminal."""
    (text, style), (old, old_style) = row, shown
    if style != old_style or len(text) != len(old) or not (text.isascii() and old.isascii()):
        return f"\033[{place + 1};1H{_styled(_ended(text) if style == PLAIN else text, style)}" + (
            "\033[K" if style == PLAIN else ""
        )
    end = len(_ended(text)) if style == PLAIN else len(text)
    spans: list[list[int]] = []
    for at in range(end):
        if text[at] == old[at]:
            continue
        if spans and at - spans[-1][1] < NEAR:
            spans[-1][1] = at + 1
        else:
            spans.append([at, at + 1])
    written = [f"\033[{place + 1};{begin + 1}H{_styled(text[begin:last], style)}" for begin, last in spans]
    if old[end:].strip():
        written.append(f"\033[{place + 1};{end + 1}H\033[K")
    return "".join(written)


def _ended(text: str) -> str:
    """Without the spaces at its end, which are erased instead."""
    return text.rstrip(" ")


def _styled(text: str, style: str) -> str:
    return f"\033[{style}m{text}\033[0m" if style else text
