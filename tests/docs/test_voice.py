"""Vague words, such as "somebody": what users read, the source and its tests name the actor instead."""

import re
from pathlib import Path

from walkthroughs import ROOT

VAGUE = re.compile(r"\b(nobody|somebody|whoever|anew|to be had)\b", re.IGNORECASE)
READ_BY_USERS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "action.yml",
    "docs",
    "deploy",
    "src",
    "bench",
    "tools",
    "tests/action",
    "tests/cli",
    "tests/docs",
    "tests/settings",
)

SUFFIXES = (".md", ".py", ".yml", ".tf", ".sh", ".sql")


def files() -> list[str]:
    found = [
        path
        for name in READ_BY_USERS
        for path in ((ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name])
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.suffix in SUFFIXES and path != Path(__file__))


def test_every_sentence_names_its_actor() -> None:
    found = []
    for name in files():
        lines = enumerate((ROOT / name).read_text().splitlines(), start=1)
        found += [f"{name}:{number}: {line.strip()}" for number, line in lines if VAGUE.search(line)]
    assert found == []
