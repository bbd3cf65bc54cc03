"""What the tests of GitHub itself start from."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from fakes.github.acting import caller
from fakes.github.hub import FakeGithub


@pytest.fixture
def api(github: FakeGithub) -> Iterator[httpx.Client]:
    """A caller with every permission."""
    with caller(github) as client:
        yield client
