"""Text in the cells of a terminal: safe, cut and padded by how wide it is shown.

Names come from outside. What would move the cursor, turn the direction of writing or take no cell of its own is left
out, and a character that takes two cells counts as two.
"""

import unicodedata
from collections.abc import Mapping, Sequence

SPACE = 2  # cells between two columns
CUT = "~"


def safe(text: str, *, unicode: bool = True) -> str:
    """One line of characters that each take one or two cells."""
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(_safe(char) for char in unicodedata.normalize("NFC", text))
    return shown if unicode else "".join(char if char.isascii() else "?" for char in shown)


def _safe(char: str) -> str:
    if not char.isprintable():
        return " " if char.isspace() else "?"
    return "" if unicodedata.category(char) in ("Mn", "Me", "Mc") else char


def width_of(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_cells, text))


def fitted(text: str, width: int) -> str:
    """Cut or padded to exactly this width."""
    have = width_of(text)
    if have <= width:
        return text + " " * (width - have)
    kept, room = "", max(0, width - len(CUT))
    for char in text:
        if (room := room - _cells(char)) < 0:
            break
        kept += char
    return fitted(kept + CUT[:width], width)


def chosen(titles: Sequence[str], widths: Mapping[str, int], spare: Sequence[str], room: int) -> list[str]:
    """The columns that fit side by side: those in `spare` are left out first, in this order."""
    kept = list(titles)
    for title in spare:
        if sum(widths[one] for one in kept) + SPACE * (len(kept) - 1) <= room:
            break
        if title in kept:
            kept.remove(title)
    return kept


def _cells(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
