"""Jobs that are not the claim's, and jobs that play with how they are judged: under a real agent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.github.fixtures import USER, AgentStage, Over, a_stage
from bullpen.agent.github.job_hooks import ANSWER_WITHIN
from bullpen.agent.progress import SignalKind
from bullpen.host.processes import descendants, mark_of
from bullpen.model.activity import Activity
from busy_machines import slowness
from fakes.github.hub import FakeGithub, JobSpec

pytestmark = pytest.mark.slow
RUN = "${{ github.run_id }}"
HOOK = "ACTIONS_RUNNER_HOOK_JOB_STARTED"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.agent.github.job_hooks.LOGGED_WITHIN", 0.5)


@pytest.fixture
def stage(github: FakeGithub) -> Iterator[AgentStage]:
    with a_stage(github) as stage:
        yield stage


@pytest.fixture
def mark(stage: AgentStage) -> Path:
    """Where a step that must not run leaves its mark."""
    mark = stage.ground / "mark"
    mark.touch()
    mark.chmod(0o666)
    return mark


def asks(stage: AgentStage, run: str, attempt: str = "1", repository: str = "acme/widgets", job: str = "x") -> str:
    """What a job says to pass for another."""
    question = rf"1-1\tstarted\t{run}\t{attempt}\t{repository}\tx\t{job}\n"
    return f"printf '{question}' >{stage.config.directory}/hooks/ask"


# -------------------------------------------------------------------------------------------------------- foreign jobs


def test_a_foreign_job_runs_nothing_and_the_runner_serves_its_own_run_after_it(stage: AgentStage, mark: Path) -> None:
    own = stage.hub.start_run("acme/widgets", [JobSpec("gate"), JobSpec("build", (RUN,), ("gate",), script="true")])
    strangers = [stage.starts(f"echo >{mark}", str(own.id), always=f"echo ran >>{mark}") for _ in range(4)]
    stage.serves(str(own.id))
    stage.until(lambda: all(run.state == "completed" for run in strangers))
    stage.hub.hosted(own, "gate", "success")
    stage.until(lambda: own.state == "completed")
    assert own.conclusion == "success"
    assert {run.conclusion for run in strangers} == {"failure"}
    assert mark.read_text() == ""
    assert len(stage.store.passes) == 1, "GitHub hears at once that a job has failed, and keeps the runner"


def test_a_foreign_job_on_a_runner_for_one_job_is_followed_by_the_next_runner(github: FakeGithub) -> None:
    with a_stage(github, jit=True) as stage:
        stranger = stage.starts("true", "4711", always="true")
        stage.serves("4711")
        stage.until(lambda: stranger.state == "completed")
        assert stranger.conclusion == "failure"
        stage.until(lambda: len(stage.store.passes) == 2 and stage.agent._progress.registered_for == "r1")


def test_a_refused_job_that_does_not_end_is_ended_hard_and_the_agent_with_it(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bullpen.agent.github.job_hooks.LOGGED_WITHIN", 600
    )  # it stands still before it ends its worker
    monkeypatch.setattr("bullpen.agent.github.runner.REFUSED_WITHIN", 0.3)
    with a_stage(github) as stage:
        stage.starts("true", "4711", always="true")
        stage.serves("4711")
        with pytest.raises(Over, match="a job that was refused does not end"):
            stage.until(lambda: False)
        assert descendants(None, mark_of(stage.config.instance_id)) == ()


def test_a_job_whose_hook_never_asks_ends_the_agent(stage: AgentStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.agent.github.runner.ASKED_WITHIN", 0.3)
    stage.until(lambda: (stage.config.directory / "runner" / ".env").exists())
    (stage.config.directory / "runner" / ".env").chmod(0o644)
    (stage.config.directory / "runner" / ".env").write_text(f"{HOOK}=\n")
    run = stage.starts("sleep 600")
    stage.serves(str(run.id))
    with pytest.raises(Over, match="did not ask whether a job may run here"):
        stage.until(lambda: False)
    assert descendants(None, mark_of(stage.config.instance_id)) == ()


# ------------------------------------------------------------------------------------------ hooks that are switched off


def test_a_setting_of_another_life_of_the_runner_does_not_switch_the_hooks_off(stage: AgentStage, mark: Path) -> None:
    settings = stage.ground / "actions-runner" / ".env"
    settings.write_text(f"{HOOK}=/bin/true\n")
    settings.chmod(0o644)
    stranger = stage.starts(f"echo ran >{mark}", "4711")
    stage.serves("4711")
    stage.until(lambda: stranger.state == "completed")
    assert (stranger.conclusion, mark.read_text()) == ("failure", "")


@pytest.mark.skipif(not USER, reason="jobs run as we do here")
def test_a_job_does_not_switch_the_hooks_off(stage: AgentStage) -> None:
    runner = stage.config.directory / "runner"
    deeds = ("echo {hook}= >.env", "rm -f .env", "mv .env gone", "ln -sf /dev/null .env", "chmod 777 .env")
    tries = "; ".join(f"({deed.format(hook=HOOK)}) && exit 1" for deed in deeds)
    run = stage.starts(f"cd {runner}; {tries}; true")
    stage.serves(str(run.id))
    stage.until(lambda: run.state == "completed")
    assert run.conclusion == "success", run.job("build").log
    assert f"{HOOK}={stage.config.directory}/hooks/started.sh" in (runner / ".env").read_text()


# ------------------------------------------------------------------------------------------------- made-up questions


@pytest.mark.parametrize(
    ("attempt", "repository"),
    [("2", "acme/widgets"), ("9" * 3000, "acme/widgets"), ("1", "a/" + "b" * 1600)],
    ids=["other attempt", "vast number", "long name"],
)
def test_what_runs_cannot_pass_for_another_job(stage: AgentStage, attempt: str, repository: str) -> None:
    run = stage.starts(f"{asks(stage, RUN, attempt, repository)}; sleep 0.5")
    stage.serves(str(run.id))
    seen: list[Activity | None] = []

    def is_over() -> bool:
        seen.append(stage.activity)
        return run.state == "completed"

    stage.until(is_over)
    assert run.conclusion == "success"
    assert set(seen) <= {None, Activity("acme/widgets", str(run.id), 1, str(run.id), stage.runner, "build")}
    assert len([line for line in stage.log if "admits" in line or "refuses" in line]) == 1


def test_a_job_that_asks_without_end_delays_neither_the_heartbeat_nor_the_next_job(stage: AgentStage) -> None:
    flood = asks(stage, RUN).replace("printf", "timeout 2 bash -c 'while :; do printf \"$0\"; done'", 1)
    run = stage.starts(f"{flood} || true")
    stage.serves(str(run.id))
    stage.until(lambda: stage.activity)
    before, began = len(stage.store.beats), time.monotonic()
    stage.until(lambda: run.state == "completed")
    lasted = time.monotonic() - began
    # An agent that answers the flood first sends none. On a busy machine each beat is late, so there are fewer.
    assert 0.5 / slowness() * lasted < (len(stage.store.beats) - before) * stage.config.heartbeat < 2.0 * lasted
    assert len([line for line in stage.log if "admits" in line or "refuses" in line]) == 1
    stage.until(lambda: stage.activity is None)  # the note that it is over came last of all that it wrote
    stage.releases()
    stage.reported(SignalKind.CLEAN_OK)
    later = stage.starts("true")
    began = time.monotonic()
    stage.serves(str(later.id), round="r3")
    stage.until(lambda: later.state == "completed")
    assert later.conclusion == "success"
    assert time.monotonic() - began < ANSWER_WITHIN  # so it did not wait for an answer that was held up
