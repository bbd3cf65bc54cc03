"""What the tests of the service of scale sets start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.github.hub import FakeGithub
from fakes.github.set_caller import SetCaller


@pytest.fixture
def sets(github: FakeGithub) -> Iterator[SetCaller]:
    """A listener of acme/widgets; polls without a message are answered at once, and only `advance` moves the clock."""
    github.sets.long_poll = 0.0
    now = github.clock()
    github.clock = lambda: now
    made = SetCaller(github)
    yield made
    made.close()


@pytest.fixture
def medium(sets: SetCaller) -> int:
    """A set named medium, whose session is open."""
    set_id = sets.create("medium")
    assert sets.open(set_id) == 200
    return set_id
