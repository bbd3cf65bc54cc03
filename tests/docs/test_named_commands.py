"""Commands within a sentence of the documents: each exists, and takes the options and arguments that it is named with.

Commands in console blocks run: see `test_console_blocks.py`.
"""

import re
import shlex

import click
import pytest

from bullpen.errors import ConfigError
from docs.test_remedies import command_of
from walkthroughs import ROOT

PAGES = ["README.md", "CONTRIBUTING.md", *(str(one.relative_to(ROOT)) for one in sorted((ROOT / "docs").rglob("*.md")))]
NO_COMMAND = ("--help", "--server URL", "--version")  # options of the program itself


def named(page: str) -> list[str]:
    return re.findall(r"`bullpen ([a-z-][^`\n]*)`", (ROOT / page).read_text())


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_a_sentence_can_be_given_so(page: str) -> None:
    wrong = []
    for line in named(page):
        try:
            if line not in NO_COMMAND:
                command_of(shlex.split(line.replace("…", "")), is_whole=False)
        except (click.ClickException, ConfigError, AssertionError) as exc:
            wrong.append(f"bullpen {line}: {exc}")
    assert wrong == []


def test_the_commands_are_found() -> None:
    assert sum(len(named(page)) for page in PAGES) > 300
