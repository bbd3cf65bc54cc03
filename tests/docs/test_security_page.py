"""docs/security.md: every statement about what a job cannot do has a test, and every such test a statement."""

import ast
import re

from settings_table import render
from walkthroughs import ROOT

PAGE = (ROOT / "docs/security.md").read_text()
TRIES = ROOT / "tests/scenario/github/test_security.py"


def said() -> list[str]:
    """The numbers of the list; every item has one."""
    _, listed, _ = re.split(r"<!-- cannot: (?:begin|end) -->\n", PAGE)
    return [re.findall(r"\*\*C(\d+)\*\*", item)[0] for item in listed.split("\n- ") if item.strip()]


def tried() -> list[str]:
    names = [node.name for node in ast.parse(TRIES.read_text()).body if isinstance(node, ast.FunctionDef)]
    tests = [name for name in names if name.startswith("test_")]
    return [re.findall(r"^test_c(\d+)_", name)[0] for name in tests]


def test_every_statement_of_the_list_has_a_test_and_the_other_way_round() -> None:
    assert said() == tried() == [str(number) for number in range(1, len(said()) + 1)]


def test_numbers_are_used_for_nothing_but_the_list() -> None:
    assert set(re.findall(r"\bC(\d+)\b", PAGE)) == set(said())


def test_there_is_no_setting_for_reuse_as_the_page_says() -> None:
    names = re.findall(r"^\| `([^`]+)`", render(), re.MULTILINE)
    assert "agent.keep" in names
    assert [name for name in names if "reuse" in name or "reset" in name] == []


def test_every_linked_file_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_every_linked_heading_exists() -> None:
    for page, anchor in re.findall(r"\]\(([a-z-]*(?:\.md)?)#([a-z0-9-]+)\)", PAGE):
        text = (ROOT / "docs" / page).read_text() if page else PAGE
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert anchor in [re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings], anchor
