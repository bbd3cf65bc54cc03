"""docs/troubleshooting.md: every message that it quotes is one of the program's, and every row is complete."""

import ast
import re
from collections.abc import Iterator

import pytest

from walkthroughs import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text()
ROWS = [row.strip("| ").split(" | ") for row in re.findall(r"^\| (?!symptom).*$", PAGE, re.MULTILINE)]
MESSAGES = [row[0].strip("`") for row in ROWS if re.fullmatch(r"`[^`]*`", row[0])]


def _texts() -> Iterator[str]:
    """The strings of the program, as they are put together, with dots for the values in them."""
    for path in sorted((ROOT / "src" / "bullpen").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


TEXTS = list(_texts())


def test_the_page_explains_messages() -> None:
    assert len(MESSAGES) >= 12


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_the_page_explains_is_one_of_the_programs(message: str) -> None:
    said = re.compile(".*".join(re.escape(part.strip()) for part in message.split("…")))
    assert any(said.search(text) for text in TEXTS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_a_symptom_has_a_cause_a_place_to_look_and_a_remedy(row: list[str]) -> None:
    assert len(row) == 4
    assert all(cell.strip() for cell in row)
