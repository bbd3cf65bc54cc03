"""What the program says: the strings in its source, for pages that quote its messages."""

import ast
from functools import cache
from pathlib import Path


@cache
def texts_of(path: Path) -> tuple[str, ...]:
    """The strings of a module, as they are put together, with dots for the values in them. Several tests ask for those
    of the whole program: a process reads each module once."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return tuple(found)
