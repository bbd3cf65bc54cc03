"""Every console block of the documents runs in a test, or says why it does not."""

import re
import shutil
from collections.abc import Iterator

import pytest

from docs.served_page import BLOCK, PAGE, Reader, a_reader, blocks, normal
from walkthroughs import DOCUMENTS, ROOT

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
CONSOLE = re.compile(r"(?:^ *<!-- (?P<mark>[^\n]*) -->\n)?^ *```console\n", re.MULTILINE)
# The pages whose walk-throughs a test follows: test_documents.py, test_aws_page.py, test_github_page.py, and below.
FOLLOWED = {*DOCUMENTS, "docs/aws.md", "docs/github.md", PAGE}


@pytest.fixture
def reader() -> Iterator[Reader]:
    if shutil.which("curl") is None:
        pytest.skip("no curl on the PATH")
    with a_reader() as made:
        yield made


@pytest.mark.parametrize("page", PAGES)
def test_every_console_block_runs_in_a_test_or_says_why_not(page: str) -> None:
    marks = [found["mark"] or "" for found in CONSOLE.finditer((ROOT / page).read_text())]
    known = ("walk-through", "walk-through: a new pool", "demo") if page in FOLLOWED else ()
    assert [mark for mark in marks if mark not in known and not re.fullmatch(r"not run: \S.{9,}", mark)] == []


def test_every_walk_through_of_the_page_of_serve_is_followed() -> None:
    marked = (ROOT / PAGE).read_text().count("<!-- walk-through")
    assert len(BLOCK.findall((ROOT / PAGE).read_text())) == marked >= 8


@pytest.mark.slow
def test_the_page_of_serve_shows_what_a_server_answers(reader: Reader) -> None:
    for in_new_pool, shown_commands in blocks():
        for shown in shown_commands:
            printed = reader.type(shown, in_new_pool)
            assert normal(printed) == normal(shown.output), f"{shown.command}\nprinted:\n{printed}"
