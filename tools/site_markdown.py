"""Markdown as GitHub reads it, written as the site's generator reads it.

The pages are written for both. Three rules differ, and a test compares what both make of every page:

- a list may follow a paragraph without an empty line on GitHub only;
- the item after one with paragraphs or a list of its own needs one, too, on the site;
- what belongs to a list's item is indented as far as the item's text on GitHub, by four columns on the site.
"""

import re

from markdown_it import MarkdownIt

_MARKER = re.compile(r" *(?:[-*+]|\d+[.)]) +")


def for_site(text: str) -> str:
    """The same page in the other dialect."""
    lines = text.split("\n")
    items: list[tuple[int, int]] = []  # first line and the line after the last
    lists: set[int] = set()
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.map and token.type == "list_item_open":
            items.append((token.map[0], token.map[1]))
        elif token.map and token.type in ("bullet_list_open", "ordered_list_open"):
            lists.add(token.map[0])
    written: list[str] = []
    for number, line in enumerate(lines):
        around = [item for item in items if item[0] <= number < item[1]]  # outermost first
        # An item before this one that has paragraphs or a list of its own.
        long = any(end == number and not _is_one_paragraph(lines[start:end], items, start) for start, end in items)
        if (number in lists or (long and around)) and written and written[-1].strip():
            written.append("")
        written.append(_indented(line, number, [_text_column(lines[start]) for start, _ in around], around))
    return "\n".join(written)


def _is_one_paragraph(lines: list[str], items: list[tuple[int, int]], start: int) -> bool:
    inner = [item for item in items if start < item[0] < start + len(lines)]
    return not inner and all(line.strip() for line in lines)


def _indented(line: str, number: int, columns: list[int], around: list[tuple[int, int]]) -> str:
    if not around or not line.strip():
        return line
    begins = around[-1][0] == number
    depth = len(around) - 1 if begins else len(around)
    column = (columns[-2] if depth else 0) if begins else columns[-1]
    spaces = len(line) - len(line.lstrip(" "))
    return " " * 4 * depth + line[min(spaces, column) :]


def _text_column(line: str) -> int:
    marker = _MARKER.match(line)
    return marker.end() if marker else 0
