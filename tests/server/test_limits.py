"""How many connections a process takes on, by the files that it may hold open."""

import resource

import pytest

from bullpen.server.protocol import MOST_CONNECTIONS
from bullpen.server.serve import RESERVED, most_connections


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "most"),
    [
        (1024, 1024, 1024, 1024 - RESERVED),
        (1024, 8000, 8000, 8000 - RESERVED),
        (1024, 1_000_000, MOST_CONNECTIONS + RESERVED, MOST_CONNECTIONS),
        (1024, resource.RLIM_INFINITY, MOST_CONNECTIONS + RESERVED, MOST_CONNECTIONS),
        (1_000_000, 1_000_000, None, MOST_CONNECTIONS),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, MOST_CONNECTIONS),
        (64, 64, 64, 32),
    ],
)
def test_connections_leave_file_descriptors_for_the_store_and_the_instances(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int | None, most: int
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, given: limits.append(given))
    assert most_connections() == most
    assert limits == ([] if raised is None else [(raised, hard)])
