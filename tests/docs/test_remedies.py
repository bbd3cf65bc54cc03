"""Remedies: the sentence after an error that says what to do next begins with a capital letter and ends with a stop.

The test reads the source, so that it reaches every error. It follows names to their constants in the same module. What
stands only at run time, such as the remedy of another error, is checked where that one is written.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from walkthroughs import ROOT

SOURCE = ROOT / "src" / "bullpen"
CARRIERS = ("remedy", "instead")  # keyword arguments and variables that carry a remedy
POSITIONS = {"Finding": 3, "complain": 1, "FleetError": 3}
TABLES = ("REMEDY", "REMEDIES", "NO_MODES", "_KNOWN", "_BY_MESSAGE", "_REMEDIES")
SOMETHING = "…"  # stands for a value that is known only at run time

Names = dict[str, list[ast.expr]]


def texts(node: ast.expr, names: Names) -> Iterator[str]:
    """Every text that an expression may be, with `SOMETHING` for its unknown parts."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(next(texts(part, names), SOMETHING) for part in parts)
        case ast.FormattedValue(value=ast.Name() as name):
            yield from texts(name, names)
        case ast.IfExp(body=one, orelse=other):
            yield from texts(one, names)
            yield from texts(other, names)
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from texts(part, names)
        case ast.Tuple(elts=[*_, ast.Name() as last]):  # a row of a table
            yield from texts(last, names)
        case ast.Dict(values=values) | ast.Tuple(elts=values):
            for value in values:
                yield from texts(value, names)
        case ast.Name(id=id):
            for value in names.pop(id, []):
                yield from texts(value, names)


def remedies(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each remedy of a module."""
    tree = ast.parse(path.read_text())
    names: Names = defaultdict(list)
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=id)], value=value)
                | ast.AnnAssign(target=ast.Name(id=id), value=ast.expr() as value)
            ):
                names[id].append(value)
                found += [value] if id.lower() in CARRIERS or id in TABLES else []
            case ast.keyword(arg="remedy" | "instead", value=value):
                found.append(value)
            case ast.Call(func=ast.Name(id=id), args=given) if id in POSITIONS:
                found += given[POSITIONS[id] :][:1]
    for node in found:
        yield from ((node.lineno, text) for text in texts(node, dict(names)) if " " in text)


def test_every_remedy_is_a_sentence_with_a_capital_letter_and_a_full_stop() -> None:
    found = [(path, line, text) for path in sorted(SOURCE.rglob("*.py")) for line, text in remedies(path)]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path, line, text in found
        if not (text[0].isupper() or text[0] == SOMETHING)
        or not (text.endswith((".", SOMETHING)) or (text.startswith("Did you mean") and text.endswith("?")))
    ]
    assert wrong == []
    assert len(found) > 200, "the test no longer finds the remedies"
