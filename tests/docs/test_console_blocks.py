"""Every console block of the documents runs in a test and prints what it shows, or says why it does not run."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.followed_pages import PAGES as FOLLOWED
from docs.followed_pages import a_reader
from docs.reader import Reader
from walkthroughs import ROOT, Shown, commands, steps

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
CONSOLE = re.compile(r"(?:^ *<!-- (?P<mark>[^\n]*) -->\n)?^ *```(?:console|sh)\n(?P<text>.*?)^ *```$", re.M | re.S)
OTHERS = {"docs/aws.md", "docs/github.md"}  # test_aws_page.py and test_github_page.py follow these
NOT_RUN = r"not run: \S.{9,}"


@pytest.fixture
def reader(page: str, request: pytest.FixtureRequest) -> Iterator[Reader]:
    if shutil.which("curl") is None:
        pytest.skip("no curl on the PATH")
    if page == "docs/install.md":
        request.getfixturevalue("console_tools")
    if page == "docs/serve.md":
        request.getfixturevalue("github_described")
    with a_reader(page) as made:
        yield made


@pytest.mark.parametrize("page", PAGES)
def test_every_console_block_runs_in_a_test_or_says_why_not(page: str) -> None:
    blocks = [(found["mark"] or "", found["text"]) for found in CONSOLE.finditer((ROOT / page).read_text())]
    run = [(mark, text) for mark, text in blocks if mark != "demo" and not re.fullmatch(NOT_RUN, mark)]
    followed = [step for step in steps(page) if step.mark == "walk-through"]
    assert [mark for mark, _ in run if mark.partition(":")[0] != "walk-through"] == []
    assert len(run) == len(followed), "a block is marked, and `steps` does not find it"
    assert not followed or page in {*FOLLOWED, *OTHERS}
    assert [step for step in followed if not step.commands] == []


@pytest.mark.parametrize("page", FOLLOWED)
def test_every_command_of_a_walk_through_is_found(page: str) -> None:
    """So that a block that is read wrongly does not pass as one without commands."""
    marked = [found for found in CONSOLE.finditer((ROOT / page).read_text()) if "walk-through" in (found["mark"] or "")]
    typed = sum(len(re.findall(r"^ *\$ ", found["text"], re.M)) for found in marked)
    assert sum(len(step.commands) for step in steps(page)) == typed > 0


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_shows_what_its_commands_print(page: str, reader: Reader) -> None:
    for step in steps(page):
        reader.follow(step)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/operating.md"])
def test_the_last_commands_of_a_page_end_what_it_started(page: str) -> None:
    typed = [shown.command for step in steps(page) if not step.about for shown in step.commands]
    last = max(index for index, command in enumerate(typed) if command == "bullpen down")
    assert [command for command in typed[last:] if re.match(r"bullpen (provision|run|serve)\b", command)] == []


def test_a_command_goes_on_below_a_backslash() -> None:
    first, second = commands("$ one \\\n  more\noutput\n$ two\n")
    assert (first.command, first.output) == ("one \\\n  more", "output\n")
    assert (second.command, second.output) == ("two", "")


def test_a_name_on_a_page_stands_for_a_name_of_the_same_kind(tmp_path: Path) -> None:
    """Which of two runners takes a job is a matter of time: the page may show an instance that is new on it, where
    the command prints one that is known."""
    reader = Reader(tmp_path, None)
    reader.program("first", "echo i-aaaaaaaa i-bbbbbbbb")
    reader.program("second", "echo i-bbbbbbbb j-cccccccc bpo_secret")
    reader.type(Shown("first", "i-11111111 i-12121212\n"))
    reader.type(Shown("second", "i-22222222 j-33333333 bpo_shown\n"))
    assert reader.renamed("i-11111111 j-33333333 bpo_shown") == "i-aaaaaaaa j-cccccccc bpo_secret"
    assert reader.renamed("i-22222222") == "i-22222222"
