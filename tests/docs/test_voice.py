"""Vague words, such as "somebody": what users read, the source and its tests name the actor instead."""

import re
from pathlib import Path

import pytest

from walkthroughs import ROOT

VAGUE = re.compile(r"(?:\b|_)(nobody|no[ _]one|somebody|someone|anybody|whoever|anew|be[ _]had)(?:\b|_)", re.IGNORECASE)
VAGUE_IN_TEST = re.compile(r"^ *(?:async )?def test_\w*_ours(?=_|\()", re.MULTILINE)
"""In names of tests only: as a variable beside `theirs`, `ours` says which of two is meant."""

READ = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "action.yml",
    "docs",
    "deploy",
    "src",
    "bench",
    "tools",
    "tests",
)
SUFFIXES = (".md", ".py", ".yml", ".tf", ".sh", ".sql", ".java", ".go", ".mjs", ".js", ".html", ".css", ".json")

NAMES = re.compile(r"[\"']nobody[\"']|a_changed_worker_is_counted_anew")
"""In quotes, the account that every Unix system has, or a name that a test gives to nothing. And a trigger, whose name
is stored: another one in the schema would hold in new databases only, and a migration would have to know both."""


def files() -> list[str]:
    found = [path for name in READ for path in ((ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name])]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.suffix in SUFFIXES and path != Path(__file__))


def vague(line: str) -> bool:
    return bool(VAGUE.search(NAMES.sub("", line)) or VAGUE_IN_TEST.search(line))


@pytest.mark.parametrize(
    "line",
    [
        "# whoever serves",
        "def test_a_connection_is_made_anew() -> None:",
        "async def test_a_token_that_is_not_to_be_had_fails() -> None:",
        "_NOBODY = 0",
        "It goes on as soon as a runner can be had.",
        "def test_a_file_that_is_not_ours_is_refused() -> None:",
    ],
)
def test_a_vague_word_is_found_in_names_as_in_sentences(line: str) -> None:
    assert vague(line)


def test_every_sentence_and_name_names_its_actor() -> None:
    found = []
    for name in files():
        lines = enumerate((ROOT / name).read_text().splitlines(), start=1)
        found += [f"{name}:{number}: {line.strip()}" for number, line in lines if vague(line)]
    assert found == []
