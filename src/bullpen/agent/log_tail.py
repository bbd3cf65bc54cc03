"""The agent's log and its last lines, which are sent along when it stops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

LINES = 30
LONGEST = 300  # characters of a line that are kept; all of it is written


class Journal:
    """Hands every line on, and remembers the last ones."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lines: deque[str] = deque(maxlen=LINES)

    def __call__(self, line: str) -> None:
        self._lines.append(line[:LONGEST])
        self._write(line)

    def closing(self, reason: str, limit: int) -> str:
        """The reason and, as far as there is room for them, the last lines before it."""
        head = f"{reason}; its last lines:\n"
        lines = "\n".join(self._lines)
        room = limit - len(head)
        return f"{head}{lines[-room:]}" if lines and room > 0 else reason[:limit]
