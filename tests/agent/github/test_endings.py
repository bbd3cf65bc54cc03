"""How GitHub's runner ends under a real agent, and what becomes of its job and of its registration."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent.github.fixtures import PATIENCE, USER, AgentStage, a_stage
from agent.github.test_listener import listeners, the_listener
from bullpen.agent.github import install, listener
from bullpen.agent.progress import SignalKind
from bullpen.agent.shutdown import leave
from bullpen.agent.store.base import RunnerCredentials
from fakes.github.hub import FakeGithub

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(github: FakeGithub, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentStage]:
    monkeypatch.setattr(listener, "FIRST_PAUSE", 0.05)
    with a_stage(github) as stage:
        yield stage


@pytest.fixture
def jit(github: FakeGithub) -> Iterator[AgentStage]:
    with a_stage(github, jit=True) as stage:
        yield stage


# -------------------------------------------------------------------------------------------------------------- its job


def test_github_hears_of_a_job_s_end_though_the_runner_is_given_back_when_it_says_so_here(stage: AgentStage) -> None:
    go = stage.ground / "go"
    program = stage.ground / "actions-runner" / "bin" / "listener.py"
    pauses = "time.sleep(TOLD_AFTER)\n"
    assert pauses in program.read_text()
    program.write_text(program.read_text().replace(pauses, f"while not Path('{go}').exists(): time.sleep(0.02)\n"))
    run = stage.starts("sleep 0.3; kill -KILL $PPID")  # its worker: then its end is told by the listener
    stage.serves(str(run.id))
    stage.until(lambda: stage.activity)
    stage.until(lambda: stage.activity is None)
    assert run.state != "completed"
    stage.releases()
    actions = stage.agent._tasks.github
    stage.until(lambda: actions._listener is not None and actions._listener.stage is listener.ListenerStage.STOPPING)
    go.touch()
    stage.reported(SignalKind.CLEAN_OK)
    assert run.conclusion == "failure"
    assert stage.hub.runners() == []


def test_a_job_has_the_umask_of_a_user_and_not_the_agent_s(stage: AgentStage) -> None:
    before = os.umask(0o077)
    try:
        run = stage.starts("umask")
        stage.serves(str(run.id))
        stage.until(lambda: run.state == "completed")
    finally:
        os.umask(before)
    assert run.job("build").log.startswith("0022\n")


def test_the_runner_is_started_in_its_own_directory(stage: AgentStage) -> None:
    stage.serves("4711")
    assert Path(f"/proc/{the_listener(stage)}/cwd").resolve() == stage.config.directory / "runner"


def test_an_agent_that_leaves_takes_leave_of_github_once_its_runner_has_cancelled_the_job(
    stage: AgentStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agent.github.runner.LEAVING_WITHIN", 0.1)
    # On a busy machine the runner may need longer than the usual 25 seconds to cancel its job.
    monkeypatch.setattr("bullpen.agent.github.listener.STOPPED_WITHIN", PATIENCE)
    monkeypatch.setattr("bullpen.agent.github.runner.STOPPED_WITHIN", PATIENCE)
    # We are no agent of our own process: what else runs below it belongs to other tests.
    monkeypatch.setattr("bullpen.agent.shutdown.identify", lambda pid: None)
    began = stage.ground / "began"
    began.touch()
    began.chmod(0o666)
    run = stage.starts(f"trap '' INT TERM; echo yes >{began}; while sleep 0.05; do :; done")
    stage.serves(str(run.id))
    stage.until(began.read_text)
    agent = stage.agent
    leave(stage.config, agent._store, agent._record, agent._progress, "test", agent._log, agent._tasks.leave)
    assert run.conclusion == "cancelled"
    assert stage.hub.runners() == []
    assert stage.store.beats[-1] is not None  # the control plane knows which job ran here
    assert stage.store.leaving  # and that no user cancelled it


def test_a_step_of_a_job_has_the_ten_seconds_that_the_runner_gives_it() -> None:
    assert listener.STOPPED_WITHIN >= 20


# ----------------------------------------------------------------------------------------------------- its registration


def test_a_registration_is_removed_by_a_token_that_holds_then(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_stage(github, direct=True) as stage:
        monkeypatch.setattr(stage.store, "register", with_an_old_token(stage))
        stage.serves("4711")
        stage.releases()
        stage.reported(SignalKind.REMOVE_REG_OK)
        assert github.runners() == []


def test_a_registration_that_stays_behind_is_reported_and_the_machine_is_not_offered(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_stage(github, direct=True) as stage:
        monkeypatch.setattr(stage.store, "removal_token", lambda: "ENDED")
        stage.serves("4711")
        stage.releases()
        with pytest.raises(AssertionError):
            stage.reported(SignalKind.REMOVE_REG_OK)
        kind, _, text = stage.store.reports[-1]
        assert kind is SignalKind.REMOVE_REG_FAILED
        assert text.startswith("its registration stays behind: ")
        assert len(github.runners()) == 1


@pytest.mark.skipif(not USER, reason="jobs run as we do here, and the runner's files are theirs")
def test_a_job_cannot_keep_its_registration_by_a_tree_that_is_too_deep_to_be_removed_at_once(
    github: FakeGithub,
) -> None:
    with a_stage(github, direct=True) as stage:
        runner = stage.config.directory / "runner"
        dig = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
        run = stage.starts(f'cd {runner} && python3 -I -S -c "{dig}"')
        stage.serves(str(run.id))
        stage.until(lambda: run.state == "completed")
        assert run.conclusion == "success", run.job("build").log
        stage.releases()
        stage.reported(SignalKind.CLEAN_OK)
        assert github.runners() == []


def test_the_time_that_it_takes_to_undo_what_jobs_did_is_not_taken_from_the_removal_of_the_registration(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(listener, "time", clock)
    monkeypatch.setattr("bullpen.agent.github.runner.time", clock)

    strip = install.strip

    def slowly(directory: Path, programs: Collection[str]) -> None:
        clock.ahead += 10 * listener.REMOVED_WITHIN
        strip(directory, programs)

    monkeypatch.setattr(install, "strip", slowly)
    with a_stage(github, direct=True) as stage:
        stage.serves("4711")
        stage.releases()
        stage.reported(SignalKind.CLEAN_OK)
        assert clock.ahead > 0
        assert github.runners() == []


class Clock:
    """The monotonic clock, once so many seconds have passed that no test waits for."""

    ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


def test_an_unexpected_error_while_it_removes_its_registration_is_not_reported_as_a_removal(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_stage(github, direct=True) as stage:
        monkeypatch.setattr("bullpen.agent.github.install.strip", surprising)
        stage.serves("4711")
        stage.releases()
        stage.until(lambda: stage.store.reports[-1][1] == "r2")
        kind, _, text = stage.store.reports[-1]
        assert kind is SignalKind.REMOVE_REG_FAILED
        assert text.startswith("its registration stays behind: unexpected error")
        assert len(github.runners()) == 1


def test_a_mistake_that_costs_the_runner_of_a_served_agent_leaves_its_removal_to_the_service(
    stage: AgentStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.serves("4711")
    with monkeypatch.context() as broken:
        broken.setattr(listener.RunnerListener, "_ended", surprising)
        stage.releases()
        stage.until(lambda: stage.agent._tasks.github._listener is None)
    stage.reported(SignalKind.CLEAN_OK)
    assert stage.hub.runners() == []


def surprising(*_: object, **__: object) -> None:
    raise RuntimeError("surprise")


def test_a_registration_that_may_have_reached_github_before_config_sh_failed_counts_as_left_behind(
    github: FakeGithub,
) -> None:
    with a_stage(github, direct=True) as stage:
        (stage.ground / "actions-runner" / "config.sh").write_text(
            "#!/bin/bash\n[[ $1 == --version ]] || exit 1\necho 2.336.0\n"
        )
        stage.claimed("4711")
        stage.until(lambda: any(kind is SignalKind.REG_FAILED for kind, *_ in stage.store.reports))
        stage.releases()
        stage.until(lambda: stage.store.reports[-1][1] == "r2")
        kind, _, text = stage.store.reports[-1]
        assert kind is SignalKind.REMOVE_REG_FAILED
        assert "whether GitHub registered it is not known" in text


def with_an_old_token(stage: AgentStage) -> object:
    register = stage.store.register

    def registered(record: object, *_: object) -> object:
        given = register(record)  # type: ignore[arg-type]
        return replace(given, removal="ENDED") if isinstance(given, RunnerCredentials) else given

    return registered


# ------------------------------------------------------------------------------------------------------------------ jit


def test_a_jit_runner_whose_job_was_cancelled_before_it_began_is_followed_by_another(jit: AgentStage) -> None:
    program = jit.ground / "actions-runner" / "bin" / "listener.py"
    tells = '        self.hub.say("started", job=job["id"])\n'
    assert tells in program.read_text()
    ends = f'{tells}        self.hub.say("finish", job=job["id"], conclusion="cancelled")\n        return\n'
    program.write_text(program.read_text().replace(tells, ends))
    run = jit.starts("true")
    jit.serves(str(run.id))
    jit.until(lambda: len(jit.store.passes) == 2)
    assert run.conclusion == "cancelled"


def test_a_jit_runner_that_ends_without_a_job_is_removed_first_and_followed_after_a_pause(
    jit: AgentStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "FIRST_PAUSE", 0.5)
    jit.serves("4711")
    first, actions = jit.runner, jit.agent._tasks.github
    with suppress(ProcessLookupError):
        for pid in listeners(jit):
            os.kill(pid, signal.SIGKILL)
    jit.until(lambda: actions._listener is not None and actions._listener.stage is listener.ListenerStage.PAUSING)
    paused_at = time.monotonic()
    jit.until(lambda: len(jit.store.passes) == 2)
    assert time.monotonic() - paused_at >= 0.4
    assert jit.store.removed == [first]
    assert [one.name for one in jit.hub.runners()] == [jit.runner]
