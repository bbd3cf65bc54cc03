"""Formatting of plain text: aligned columns, relative times and plurals."""

from collections.abc import Iterable, Sequence
from datetime import datetime


def columns(rows: Iterable[Sequence[str]], indent: str = "") -> str:
    """Rows as left-aligned columns; an empty text without rows."""
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in table
    )


def ago(at: datetime | None, now: datetime) -> str:
    """A time relative to `now`: `12s ago`, `in 3m`."""
    if at is None:
        return "never"
    seconds = round((now - at).total_seconds())
    size = abs(seconds)
    length = f"{size}s" if size < 120 else f"{size // 60}m" if size < 7200 else f"{size // 3600}h"
    return f"{length} ago" if seconds >= 0 else f"in {length}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
