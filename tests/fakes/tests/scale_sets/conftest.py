"""Each test of this folder meets GitHub's own client, on both services."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.tests.scale_sets.services import Emulated, SetPeer, a_stand_in


@pytest.fixture(params=["github", "enterprise", "emulator"])
def peer(request: pytest.FixtureRequest) -> Iterator[SetPeer]:
    if request.param == "emulator":
        yield Emulated(request.getfixturevalue("emulator"))
        return
    with a_stand_in(request.getfixturevalue("github"), enterprise=request.param == "enterprise") as stand_in:
        yield stand_in
