"""Fixtures of the programs in `peers`.

    emulator    the independent emulator of scale sets, a process of the test's own
    go_client   where GitHub's own client of scale sets is; `go_process.a_go_client` starts it
    act         where act is; `act_runs.run_workflow` starts it
    gitea_program, gitea_runner_program     where Gitea and its runner are; the fixtures of `gitea` start them

Without Rust, Go or git to build them these tests are skipped, and the end of the run says so; BULLPEN_REQUIRE_ENGINES=1
fails it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes import peers
from fakes.scale_sets.emulator import Emulator, emulating

SKIPPED = "SKIPPED ENGINES"


def pytest_sessionstart(session: pytest.Session) -> None:
    if _is_required() and not hasattr(session.config, "workerinput"):  # once, before xdist's workers start
        try:
            peers.go_client()
            peers.emulator()
            peers.act()
            peers.gitea_runner()
            peers.gitea()
        except peers.PeerMissing as exc:
            pytest.exit(f"BULLPEN_REQUIRE_ENGINES=1, and {exc}", returncode=1)


@pytest.fixture(scope="session")
def go_client() -> Path:
    return _built(peers.go_client)


@pytest.fixture(scope="session")
def act() -> Path:
    return _built(peers.act)


@pytest.fixture(scope="session")
def gitea_program() -> Path:
    return _built(peers.gitea)


@pytest.fixture(scope="session")
def gitea_runner_program() -> Path:
    return _built(peers.gitea_runner)


@pytest.fixture(scope="session")
def emulator_program() -> Path:
    return _built(peers.emulator)


@pytest.fixture
def emulator(emulator_program: Path) -> Iterator[Emulator]:
    with emulating(emulator_program) as running:
        yield running


def _built(build: Callable[[], Path]) -> Path:
    try:
        return build()
    except peers.PeerMissing as exc:
        if _is_required():
            raise
        pytest.skip(f"{SKIPPED}: {exc}")


def _is_required() -> bool:
    return os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1"
