"""docs/troubleshooting.md: every message that it quotes is one of the program's, and every row is complete."""

import re

import pytest

from docs.program_texts import texts_of
from walkthroughs import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text()
ROWS = [row.strip("| ").split(" | ") for row in re.findall(r"^\| (?!symptom).*$", PAGE, re.MULTILINE)]
MESSAGES = [row[0].strip("`") for row in ROWS if re.fullmatch(r"`[^`]*`", row[0])]


def test_the_page_explains_messages() -> None:
    assert len(MESSAGES) >= 12


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_the_page_explains_is_one_of_the_programs(message: str) -> None:
    said = re.compile(".*".join(re.escape(part.strip()) for part in message.split("…")))
    modules = sorted((ROOT / "src" / "bullpen").rglob("*.py"))
    assert any(said.search(text) for path in modules for text in texts_of(path))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_a_symptom_has_a_cause_a_place_to_look_and_a_remedy(row: list[str]) -> None:
    assert len(row) == 4
    assert all(cell.strip() for cell in row)
