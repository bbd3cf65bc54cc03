"""The fixture `github`: a GitHub of the test's own. What violates GitHub's description fails the test that caused it.

Without npm to fetch the description these tests are skipped, and the end of the run says so; BULLPEN_REQUIRE_ENGINES=1
fails it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from fakes.github.description import DescriptionMissing, fetch, load

if TYPE_CHECKING:
    from fakes.github.hub import FakeGithub

SKIPPED = "SKIPPED ENGINES"


def pytest_sessionstart(session: pytest.Session) -> None:
    if _is_required() and not hasattr(session.config, "workerinput"):  # once, before xdist's workers start
        try:
            fetch()
        except DescriptionMissing as exc:
            pytest.exit(f"BULLPEN_REQUIRE_ENGINES=1, and {exc}", returncode=1)


@pytest.fixture(scope="session")
def github_described() -> None:
    try:
        load()
    except DescriptionMissing as exc:
        if _is_required():
            raise
        pytest.skip(f"{SKIPPED}: {exc}")


@pytest.fixture
def github(github_described: None) -> Iterator[FakeGithub]:
    """GitHub with the repository acme/widgets; see `github.hub`."""
    with serving() as hub:
        yield hub


@contextmanager
def serving() -> Iterator[FakeGithub]:
    """AssertionError at the end if GitHub's description was violated."""
    from fakes.github.hub import FakeGithub  # takes half a second: signatures, HTTP

    with FakeGithub() as hub:
        hub.add_repository("acme/widgets")
        yield hub
    hub.check()


def _is_required() -> bool:
    return os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1"
