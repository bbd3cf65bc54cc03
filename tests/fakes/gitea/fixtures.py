"""Fixtures of the real Gitea.

    gitea           the server, one for all tests of a process: each test makes users and repositories of its own
    gitea_owner     a user of the test's own
    gitea_repository    a repository of that user
    gitea_runner    makes runners, which are gone when the test ends; they run as `job_user`, not as the server does
    gitea_hooks     what webhooks arrive at

The programs come from `peer_fixtures`, which says what happens where they cannot be built.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fakes.gitea.api import GiteaRepository, GiteaUser
from fakes.gitea.receiver import GiteaHookReceiver, receiving_hooks
from fakes.gitea.runner import GiteaRunner, a_gitea_runner
from fakes.gitea.server import GiteaServer, serving_gitea
from users import lent

LOST_AFTER = "3s"  # a job whose runner is silent for so long has failed, once a test asks for `stop_zombie_tasks`
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def gitea_of_all(gitea_program: Path) -> Iterator[GiteaServer]:
    with serving_gitea(gitea_program, lost_after=LOST_AFTER, queue="channel") as server:
        yield server


@pytest.fixture
def gitea(gitea_of_all: GiteaServer) -> GiteaServer:
    if not gitea_of_all.is_running:
        gitea_of_all.start()  # a test has failed before it started it again
    return gitea_of_all


@pytest.fixture
def gitea_owner(gitea: GiteaServer) -> GiteaUser:
    return gitea.admin.add_user(f"owner-{next(NUMBERS)}")


@pytest.fixture
def gitea_repository(gitea_owner: GiteaUser) -> GiteaRepository:
    return gitea_owner.add_repository("widgets")


@pytest.fixture
def job_user() -> Iterator[str]:
    """A user of the system that nothing else runs as; empty if we are not root."""
    with lent(1) as names:
        yield next(iter(names), "")


@pytest.fixture
def gitea_runner(gitea: GiteaServer, gitea_runner_program: Path, job_user: str) -> Iterator[Callable[..., GiteaRunner]]:
    """`gitea_runner(fetch_interval="2s")`: with that setting of its config."""
    with ExitStack() as stack:

        def one(**changed: Any) -> GiteaRunner:
            return stack.enter_context(a_gitea_runner(gitea_runner_program, gitea.url, job_user, **changed))

        yield one


@pytest.fixture
def gitea_hooks() -> Iterator[GiteaHookReceiver]:
    with receiving_hooks() as receiver:
        yield receiver
