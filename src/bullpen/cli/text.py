"""Formatting of plain text: aligned columns, relative times and plurals."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime

NARROWEST = 32  # characters of a column in which a sentence is still read with ease
DEEPER = "    "
GAP = "..."  # in ASCII, so that its width is the same on every terminal
SHORTEST = 11  # characters of an id without its middle


def columns(rows: Iterable[Sequence[str]], indent: str = "", width: int = 0) -> str:
    """Rows as left-aligned columns; an empty text without rows. If they do not fit into `width`, 0 for any, the last
    column is wrapped; where it would be too narrow for that, it goes below its row."""
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    begin = len(indent) + sum(widths[:-1]) + 2 * len(widths[:-1])
    lines = []
    for row in table:
        line = indent + "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        lines += [line] if not width or len(line) <= width else _folded(line[:begin], row[-1], indent, width)
    return "\n".join(lines)


def _folded(head: str, last: str, indent: str, width: int) -> list[str]:
    """A row on several lines: its last cell wrapped beside the others, or below them."""
    is_beside = width - len(head) >= NARROWEST
    margin = " " * len(head) if is_beside else indent + DEEPER
    room = max(width - len(margin), NARROWEST)
    lines = wrapped(last, room)
    first = head + lines.pop(0) if is_beside and lines else head
    return [first.rstrip(), *(margin + line for line in lines)]


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines of at most `width`, 0 for any; all but the first begin with `indent`. Words, such as ids, and
    commands in backticks stay whole, so that they can be pasted."""
    if not width:
        return [text]
    joined = re.sub(r"(?<![^\s(])`[^`]*`", lambda command: command[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(joined, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int = 0,
    spare: Sequence[str] = (),
    shrinks: Sequence[str] = (),
    *,
    wraps: bool = False,
) -> str:
    """Columns with titles that fit into `width`, 0 for any. If they do not fit, columns are left out in the order of
    `spare`, then those in `shrinks` lose the middle of their cells, then the last column is cut. All other cells, such
    as ids of instances, stay whole. With `wraps` the last column has sentences: no other column is left out for them,
    and they are wrapped."""
    cells = {title: [title, *(row[at] for row in rows)] for at, title in enumerate(titles)}
    widths = {title: max(map(len, column)) for title, column in cells.items()}
    if wraps:
        widths[titles[-1]] = len(titles[-1])
    for title in spare:
        if width and sum(widths.values()) + 2 * len(widths) - 2 > width:
            del cells[title], widths[title]
    for title in [title for title in shrinks if title in cells]:
        excess = sum(widths.values()) + 2 * len(widths) - 2 - width
        if width and excess > 0:
            widths[title] = max(widths[title] - excess, min(widths[title], SHORTEST), len(title))
            cells[title] = [without_middle(cell, widths[title]) for cell in cells[title]]
    if wraps:
        return columns(zip(*cells.values(), strict=True), width=width)
    last = list(cells)[-1]
    room = width - sum(widths.values()) - 2 * len(widths) + 2 + widths[last]
    if width and len(last) <= room < widths[last]:
        cells[last] = [cut(cell, room) for cell in cells[last]]
    return columns(zip(*cells.values(), strict=True))


def without_middle(text: str, width: int) -> str:
    """Ids of one kind often begin alike, and end differently."""
    if len(text) <= width:
        return text
    tail = (width - len(GAP)) // 2
    return f"{text[: width - len(GAP) - tail]}{GAP}{text[len(text) - tail :]}"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def ago(at: datetime | None, now: datetime) -> str:
    """A time relative to `now`: `12s ago`, `in 3m`."""
    if at is None:
        return "never"
    seconds = round((now - at).total_seconds())
    size = abs(seconds)
    length = f"{size}s" if size < 120 else f"{size // 60}m" if size < 7200 else f"{size // 3600}h"
    return f"{length} ago" if seconds >= 0 else f"in {length}"


def duration(seconds: float) -> str:
    """How long something took: `0.3s`, `45s`, `3m12s`, `2h05m`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02}s" if whole < 7200 else f"{whole // 3600}h{whole % 3600 // 60:02}m"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
