"""GitHub's runner for a scale set under a real agent: one job each, dropped when idle, withdrawn without harm."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.github.fixtures import PATIENCE, AgentStage, Over, a_stage
from agent.github.test_listener import commands, listeners, the_listener
from bullpen.agent.github.listener import Restarts, RunnerListener
from bullpen.agent.progress import InstanceRecord, SignalKind
from bullpen.agent.store.base import RunnerCredentials
from bullpen.model.activity import Listening, unnamed
from bullpen.model.scale_set import SetEvents, SetRepository
from bullpen.model.served_set import ServedSet
from bullpen.model.signal_text import refused_version
from fakes.github.hub import FakeGithub, JobSpec, Run

pytestmark = pytest.mark.slow

NAME = "bullpen-medium"
LABEL = f"set:{NAME}"


@pytest.fixture
def stage(github: FakeGithub, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentStage]:
    monkeypatch.setattr("bullpen.agent.github.runner.NEXT_AFTER", 0.2)
    monkeypatch.setattr("bullpen.agent.github.runner.ASK_AGAIN", 0.2)
    monkeypatch.setattr("bullpen.agent.github.job_hooks.LOGGED_WITHIN", 0.5)
    # So long that a test fails if it waits for one that has to be stopped.
    monkeypatch.setattr("bullpen.agent.github.listener.WITHDRAWN_WITHIN", 2 * PATIENCE)
    github.sets.create("acme/widgets", NAME)
    with a_stage(github, serves=ServedSet(NAME, SetEvents.TRUSTED, (repository(github),))) as stage:
        yield stage


def repository(github: FakeGithub) -> SetRepository:
    return SetRepository("acme/widgets", github._state.repositories["acme/widgets"].id)


def starts(stage: AgentStage, script: str = "true", repository: str = "acme/widgets", event: str = "push") -> Run:
    return stage.hub.start_run(repository, [JobSpec("build", runs_on=(NAME,), script=script)], event=event)


def waits(stage: AgentStage) -> bool:
    """Whether the last beat says that the newest registration waits for a job."""
    passes, waiting = stage.store.passes, stage.store.waiting
    if not passes or not waiting:
        return False
    last = passes[-1]
    assert last.serves is not None
    return waiting[-1] == Listening(last.runner, last.id, last.serves.digest)


def withdraw(stage: AgentStage) -> None:
    """As `decide` says, before the agent has heard of the runner's last words."""
    agent, record = stage.agent, stage.store.record
    assert isinstance(record, InstanceRecord)
    agent._progress = agent._tasks.github.withdraw(agent._store, agent._progress, record)


def test_it_is_ready_when_it_listens_and_its_beats_name_the_registration(stage: AgentStage) -> None:
    stage.serves(LABEL)
    assert stage.hub.is_online(stage.runner)
    stage.until(lambda: waits(stage))


def test_each_job_has_a_registration_of_its_own_in_the_same_round_and_a_clean_machine(stage: AgentStage) -> None:
    stage.serves(LABEL)
    script = 'if [[ -e $HOME/planted ]]; then exit 1; fi; touch "$HOME/planted"'
    runs = [starts(stage, script), starts(stage, script)]
    stage.until(lambda: all(run.state == "completed" for run in runs))
    assert [run.conclusion for run in runs] == ["success", "success"]
    stage.until(lambda: len(stage.store.passes) == 3 and waits(stage))
    assert len({one.runner for one in stage.store.passes}) == 3
    assert [kind for kind, _, _ in stage.store.reports].count(SignalKind.REG_OK) == 1


def test_its_activity_has_the_set_s_run_id_and_no_beat_says_meanwhile_that_it_waits(stage: AgentStage) -> None:
    stage.serves(LABEL)
    stage.until(lambda: waits(stage))
    go = stage.ground / "go"
    run = starts(stage, f"until [[ -e {go} ]]; do sleep 0.02; done")
    stage.until(lambda: stage.activity)
    bound = stage.store.beats[-1]
    assert bound is not None
    assert (bound.label, bound.runner, bound.run) == (LABEL, stage.runner, str(run.id))
    assert stage.agent._progress.begun == unnamed(LABEL, stage.runner)
    assert stage.store.waiting[-1] is None
    go.touch()
    stage.until(lambda: run.state == "completed")


def test_a_runner_that_github_drops_while_it_is_idle_is_no_failure(
    stage: AgentStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agent.github.listener.MOST_RESTARTS", 0)  # so any that counts would end the agent
    stage.serves(LABEL)
    for _ in range(2):
        stage.until(lambda: waits(stage))
        dropped = stage.runner
        stage.hub.delete_runner(dropped)
        stage.until(lambda dropped=dropped: stage.runner != dropped)  # type: ignore[misc]
    stage.until(lambda: waits(stage))
    assert [kind for kind, _, _ in stage.store.reports if kind.is_failure] == []
    assert stage.store.removed == []


def test_the_next_registration_after_an_idle_end_waits_for_its_time(
    stage: AgentStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agent.github.runner.NEXT_AFTER", 2 * PATIENCE)
    stage.serves(LABEL)
    stage.until(lambda: waits(stage))
    stage.hub.delete_runner(stage.runner)
    stage.until(lambda: not stage.agent._progress.registered_for and not stage.agent._progress.is_used)
    stage.until(lambda: stage.store.waiting[-1] is None)
    for _ in range(5):  # an agent that may register does so in its next turn
        assert not stage.agent._turn()
    assert len(stage.store.passes) == 1


def test_a_runner_waits_from_its_first_word_to_its_job_and_never_again(tmp_path: Path) -> None:
    def nothing(*_: object) -> Any:
        raise AssertionError("nothing is started here")

    given = RunnerCredentials("pool.i-1.r1.1", LABEL, jit="J", serves=ServedSet(NAME))
    one = RunnerListener(nothing, tmp_path, "2.336.0", tmp_path, {}, given, Restarts(), nothing, nothing)
    shown = []
    for words in (
        "√ Connected to GitHub",
        "Listening for Jobs",
        "Running job: a",
        "Job a completed with result: Succeeded",
    ):
        one._lines.write(f"2026-11-18 05:00:00Z: {words}\n".encode())
        one._hear()
        shown.append((one.waits, one.has_job))
    assert shown == [(False, False), (True, False), (False, True), (False, False)]


# ------------------------------------------------------------------------------------------------------------ withdrawn


def test_given_back_it_deregisters_before_its_runner_ends_and_cleans(stage: AgentStage) -> None:
    stage.serves(LABEL)
    stage.until(lambda: waits(stage))
    stage.releases()
    stage.until(lambda: stage.store.removed)
    assert stage.store.removed == [stage.runner]
    stage.reported(SignalKind.CLEAN_OK)
    assert stage.hub.runners() == []
    assert commands(stage) == {}
    assert "asks it" not in "".join(stage.log)


@pytest.mark.parametrize("how", ["releases", "recalls"])
def test_a_job_that_begins_after_the_removal_runs_to_its_end(stage: AgentStage, how: str) -> None:
    """GitHub knows a minute late that a runner is busy, and removes it under its job."""
    stage.hub.sets.busy_known_after = 3600.0
    go, began = stage.ground / "go", stage.ground / "began"
    began.touch()
    began.chmod(0o666)
    stage.serves(LABEL)
    stage.until(lambda: waits(stage))
    run = starts(stage, f"echo yes >{began}; until [[ -e {go} ]]; do sleep 0.02; done")
    # GitHub has given it to the runner, and the agent has not heard of it.
    stage.hub.wait_for(lambda: run.job("build").runner_name)
    getattr(stage, how)()
    stage.agent._must_read = True
    stage.agent._keep_in_touch()
    withdraw(stage)
    assert stage.store.removed == [stage.runner]
    stage.until(lambda: began.read_text() == "yes\n")
    assert stage.activity is not None
    assert stage.activity.label == LABEL
    go.touch()
    stage.until(lambda: run.state == "completed")
    assert run.conclusion == "success"
    if how == "releases":
        stage.until(lambda: any(one is SignalKind.CLEAN_OK for one, _, _ in stage.store.reports))
    else:
        stage.until(lambda: len(stage.store.passes) == 2 and waits(stage))


@pytest.mark.parametrize("how", ["releases", "recalls"])
def test_a_runner_that_github_knows_to_be_busy_is_left_alone_until_its_job_has_ended(
    stage: AgentStage, how: str
) -> None:
    go = stage.ground / "go"
    stage.serves(LABEL)
    stage.until(lambda: waits(stage))
    run = starts(stage, f"until [[ -e {go} ]]; do sleep 0.02; done")
    stage.hub.wait_for(lambda: run.job("build").status == "in_progress")
    getattr(stage, how)()
    stage.agent._see(stage.store.read_record())
    withdraw(stage)
    assert stage.agent._progress.is_held
    stage.until(lambda: stage.activity)
    if how == "releases":
        stage.until(lambda: any(text.startswith("busy: ") for _, _, text in stage.store.reports))
    go.touch()
    stage.until(lambda: run.state == "completed")
    assert run.conclusion == "success"
    kind = SignalKind.CLEAN_OK if how == "releases" else SignalKind.REG_OK
    stage.until(lambda: any((one, at) == (kind, "r2") for one, at, _ in stage.store.reports))


def test_recalled_it_registers_again_in_the_new_round_under_another_name(stage: AgentStage) -> None:
    stage.serves(LABEL)
    stage.until(lambda: waits(stage))
    first = stage.runner
    stage.recalls()
    stage.reported(SignalKind.REG_OK)
    assert stage.runner != first
    assert [one.name for one in stage.hub.runners()] == [stage.runner]


def test_a_ghost_is_stopped_once_it_has_not_ended_by_itself(stage: AgentStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.agent.github.listener.WITHDRAWN_WITHIN", 0.5)
    stage.serves(LABEL)
    stage.until(lambda: waits(stage))
    ghost = the_listener(stage)
    stage.hub.sets.make_ghost(stage.runner)
    stage.recalls()
    stage.until(lambda: len(stage.store.passes) == 2 and waits(stage))
    assert ghost not in listeners(stage)


def test_a_runner_that_starts_when_it_is_given_back_leaves_nothing(stage: AgentStage) -> None:
    stage.claimed(LABEL)
    stage.until(lambda: stage.store.passes)
    stage.releases()
    stage.reported(SignalKind.CLEAN_OK)
    assert stage.hub.runners() == []
    assert commands(stage) == {}


# -------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("served", "why"),
    [
        (ServedSet(NAME, SetEvents.ANY, (SetRepository("acme/widgets", 1),)), "does not serve acme/widgets"),
        (ServedSet(NAME, SetEvents.TRUSTED), "serves trusted events only, not pull_request"),
    ],
    ids=["another repository of the same name", "event"],
)
def test_a_job_that_the_set_does_not_serve_fails_with_the_setting_and_is_reported(
    stage: AgentStage, served: ServedSet, why: str
) -> None:
    stage.store.serves = served
    mark = stage.ground / "mark"
    mark.touch()
    mark.chmod(0o666)
    stage.serves(LABEL)
    run = starts(stage, f"echo ran >{mark}", event="pull_request")
    stage.until(lambda: run.state == "completed")
    assert run.conclusion == "failure"
    assert why in run.job("build").log
    assert "[github.scale-sets]" in run.job("build").log
    assert mark.read_text() == ""
    stage.until(lambda: len(stage.store.passes) == 2 and waits(stage))
    (refused,) = stage.store.refused
    assert "job build of acme/widgets" in refused
    assert why in refused
    assert not any(one.is_named for one in stage.store.beats if one is not None)


# --------------------------------------------------------------------------------------------------------------- broken


def test_a_runner_that_dies_under_its_job_ends_the_agent_which_still_names_the_job(stage: AgentStage) -> None:
    stage.serves(LABEL)
    starts(stage, "sleep 600")
    stage.until(lambda: stage.activity)
    os.kill(the_listener(stage), signal.SIGKILL)
    with pytest.raises(Over, match="ended while its job ran"):
        stage.until(lambda: False)
    assert stage.store.beats[-1] is not None


def test_a_version_that_github_refuses_is_named_where_the_control_plane_reads_it(stage: AgentStage) -> None:
    stage.hub.oldest_version = "2.400.0"
    stage.claimed(LABEL)
    stage.until(lambda: any(kind is SignalKind.REG_FAILED for kind, _, _ in stage.store.reports))
    text = stage.store.reports[-1][2]
    assert "GitHub refuses runner version 2.336.0" in text
    assert refused_version(text) == "2.336.0"


def test_the_rules_of_a_set_must_come_with_its_registration(stage: AgentStage, monkeypatch: pytest.MonkeyPatch) -> None:
    register = stage.store.register

    def without_rules(*asked: Any) -> RunnerCredentials:
        given = register(*asked)
        assert isinstance(given, RunnerCredentials)
        return replace(given, serves=None)

    monkeypatch.setattr(stage.store, "register", without_rules)
    stage.claimed(LABEL)
    stage.until(lambda: any(kind is SignalKind.REG_FAILED for kind, _, _ in stage.store.reports))
    assert "does not say which jobs" in stage.store.reports[-1][2]
