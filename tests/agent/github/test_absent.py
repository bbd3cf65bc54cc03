"""A machine that was launched without GitHub's runner, in a pool that has come to serve GitHub."""

import pytest

from agent.github.fixtures import a_stage
from bullpen.agent.progress import InstanceRecord, SignalKind
from bullpen.agent.store.base import NoCredentials
from fakes.github.hub import FakeGithub

pytestmark = pytest.mark.slow


def test_it_reports_that_instead_of_waiting_for_jobs_that_never_come(github: FakeGithub) -> None:
    with a_stage(github, ci="") as stage:
        stage.claimed("4711")
        assert "engines.ci" in stage.reported(SignalKind.REG_FAILED)
        assert github.runners() == []


def test_it_reports_the_same_where_github_refuses_credentials(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: InstanceRecord) -> None:
        raise NoCredentials("GitHub says no")

    with a_stage(github, ci="") as stage:
        monkeypatch.setattr(stage.store, "register", refuse)
        stage.claimed("4711")
        assert "engines.ci" in stage.reported(SignalKind.REG_FAILED)
