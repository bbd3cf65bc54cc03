"""GitHub's runner under a real agent: registered, serving, stopped, restarted, refused."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.github.fixtures import PATIENCE, AgentStage, Over, a_stage
from bullpen.agent.progress import SignalKind
from bullpen.host.processes import descendants, mark_of
from fakes.github.hub import FakeGithub, JobSpec

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(github: FakeGithub, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentStage]:
    monkeypatch.setattr("bullpen.agent.github.listener.FIRST_PAUSE", 0.05)
    monkeypatch.setattr("bullpen.agent.github.job_hooks.LOGGED_WITHIN", 0.5)
    with a_stage(github) as stage:
        yield stage


def commands(stage: AgentStage) -> dict[int, list[str]]:
    """What runs on the instance."""
    found = {}
    for process in descendants(None, mark_of(stage.config.instance_id)):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{process.pid}/cmdline", "rb") as file:
            found[process.pid] = file.read().decode().split("\0")
    return found


def the_listener(stage: AgentStage) -> int:
    (pid,) = listeners(stage)
    return pid


def listeners(stage: AgentStage) -> set[int]:
    return {pid for pid, words in commands(stage).items() if any(word.endswith("bin/listener.py") for word in words)}


# ---------------------------------------------------------------------------------------------------------- registering


def test_it_is_ready_when_it_listens_under_the_label_of_its_run_and_no_other(stage: AgentStage) -> None:
    stage.claimed("4711")
    stage.reported(SignalKind.REG_OK)
    assert stage.hub.is_online(stage.runner)
    (runner,) = stage.hub.runners()
    assert runner.labels == ("4711",)
    assert runner.settings["disable_update"] is True
    assert runner.name == f"pool.{stage.config.instance_id}.r1"


def test_the_runner_s_version_is_reported_after_boot_and_after_cleaning(stage: AgentStage) -> None:
    stage.serves("4711")
    stage.releases()
    assert stage.reported(SignalKind.CLEAN_OK) == "runner=2.336.0"


def test_the_token_is_nowhere_but_in_the_environment_of_what_registers(stage: AgentStage) -> None:
    run = stage.starts("env; ps -ef", "4711")
    stage.serves(str(run.id))
    secret = stage.store.passes[0].token
    for pid, words in commands(stage).items():
        assert secret not in "".join(words)
        assert secret not in Path(f"/proc/{pid}/environ").read_text()
    files = [path for path in stage.config.directory.rglob("*") if path.is_file()]
    assert not [path for path in files if secret in path.read_text(errors="replace")]
    assert secret not in "".join(stage.log)
    assert secret not in repr(stage.store.passes)


def test_what_registers_has_the_token_in_no_argument(stage: AgentStage) -> None:
    seen = stage.ground / "seen"
    seen.touch()
    seen.chmod(0o666)
    script = stage.ground / "actions-runner" / "config.sh"
    script.write_text(script.read_text().replace("#!/bin/bash\n", f'#!/bin/bash\necho "$@" >>{seen}\n', 1))
    stage.serves("4711")
    assert "--unattended" in seen.read_text()
    assert stage.store.passes[0].token not in seen.read_text()


def test_a_registration_that_github_refuses_is_reported_without_the_token_whatever_the_script_prints(
    stage: AgentStage,
) -> None:
    script = stage.ground / "actions-runner" / "config.sh"
    talks = '#!/bin/bash\necho "token: $ACTIONS_RUNNER_INPUT_TOKEN"\n'
    script.write_text(script.read_text().replace("#!/bin/bash\n", talks, 1))
    stage.hub.add_runner("acme/widgets", f"pool.{stage.config.instance_id}.r1")
    stage.claimed("4711")
    with pytest.raises(AssertionError):
        stage.reported(SignalKind.REG_OK)
    (failure,) = [text for kind, _, text in stage.store.reports if kind is SignalKind.REG_FAILED]
    assert "A runner exists with the same name" in failure
    assert "token: ***" in failure
    assert stage.store.passes[0].token not in "".join([failure, *stage.log])


def test_a_runner_that_github_refuses_soon_is_not_registered(github: FakeGithub) -> None:
    with a_stage(github, "2.299.0", oldest="2.300.0") as stage:
        stage.claimed("4711")
        with pytest.raises(AssertionError):
            stage.reported(SignalKind.REG_OK)
        assert (SignalKind.REG_FAILED, "r1") in [report[:2] for report in stage.store.reports]
        assert "runner 2.299.0 is too old" in stage.store.reports[-1][2]
        assert github.runners() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_as_root_the_boot_fails_with_the_reason(github: FakeGithub) -> None:
    with a_stage(github, runner_user="") as stage:
        stage.claimed("4711")
        stage.until(lambda: any(kind is SignalKind.FAILED for kind, _, _ in stage.store.reports))
        assert "refuses to run as root: name users for jobs in local.runner-users" in stage.store.reports[-1][2]


def test_no_process_of_the_runner_is_root_s(stage: AgentStage) -> None:
    stage.serves("4711")
    users = {Path(f"/proc/{pid}").stat().st_uid for pid in commands(stage)}
    assert users
    assert 0 not in users


# ----------------------------------------------------------------------------------------------------------------- jobs


def test_a_job_is_bound_and_reported_before_it_begins_and_free_when_github_knows_its_end(stage: AgentStage) -> None:
    go = stage.ground / "go"
    run = stage.starts(f"until [[ -e {go} ]]; do sleep 0.02; done")
    stage.serves(str(run.id))
    stage.until(lambda: stage.activity)
    bound = stage.activity
    assert bound is not None
    assert (bound.repository, bound.run, bound.attempt) == ("acme/widgets", str(run.id), 1)
    assert (bound.label, bound.runner, bound.job) == (str(run.id), stage.runner, "build")
    assert stage.store.beats[-1] == bound
    go.touch()
    stage.until(lambda: stage.activity is None)
    stage.until(lambda: stage.store.beats[-1] is None)
    assert run.conclusion == "success"


def test_a_persistent_runner_serves_one_job_after_the_other(stage: AgentStage) -> None:
    label = ("${{ github.run_id }}",)
    run = stage.hub.start_run("acme/widgets", [JobSpec(key, label, script="true") for key in ("one", "two")])
    stage.serves(str(run.id))
    stage.until(lambda: run.state == "completed")
    assert run.conclusion == "success"
    assert {job.runner_name for job in run.jobs()} == {stage.runner}


def test_jobs_run_in_the_places_of_the_instance_and_see_no_input_of_the_runner(stage: AgentStage) -> None:
    run = stage.starts('echo "$HOME $TMPDIR $GITHUB_WORKSPACE"; env')
    stage.serves(str(run.id))
    stage.until(lambda: run.state == "completed")
    places = stage.config.places
    log = run.job("build").log
    assert log.startswith(f"{places['home']} {places['tmp']} {places['work']}/widgets/widgets\n")
    assert "ACTIONS_RUNNER_INPUT" not in log


RUN = "${{ github.run_id }}"


@pytest.mark.parametrize(
    ("label", "changes", "why"),
    [
        ("99999", {}, "This runner serves label 99999, not run "),
        (f"{RUN}-2", {}, "-2, not run "),
        (RUN, {"repository": "acme/gadgets"}, "This runner serves acme/gadgets, not acme/widgets."),
    ],
    ids=["foreign run", "other attempt", "foreign repository"],
)
def test_a_job_that_is_not_the_claim_s_fails_with_the_reason_and_runs_nothing(
    stage: AgentStage, label: str, changes: dict[str, str], why: str
) -> None:
    mark = stage.ground / "mark"
    mark.touch()
    mark.chmod(0o666)
    run = stage.starts(f"echo ran >{mark}", label, always=f"echo always >{mark}")
    stage.serves(label.replace(RUN, str(run.id)), **changes)
    stage.until(lambda: run.state == "completed")
    assert run.conclusion == "failure"
    assert run.job("build").log.startswith("::error title=Bullpen::")
    assert why in run.job("build").log
    assert mark.read_text() == ""
    assert not any(stage.store.beats)


def test_a_repository_is_the_same_however_it_is_spelt(stage: AgentStage) -> None:
    run = stage.starts("true")
    stage.serves(str(run.id), repository="Acme/Widgets")
    stage.until(lambda: run.state == "completed")
    assert run.conclusion == "success"


def test_a_job_that_asks_when_the_run_was_released_is_refused(stage: AgentStage) -> None:
    jobs = [JobSpec("gate"), JobSpec("build", (RUN,), needs=("gate",), script="true")]
    run = stage.hub.start_run("acme/widgets", jobs)
    stage.serves(str(run.id))
    stage.hub.hosted(run, "gate", "success")
    hooks = stage.agent._tasks.github._hooks
    assert hooks is not None
    assert select.select([hooks], [], [], PATIENCE)[0]
    stage.releases()
    stage.agent._take_events()
    stage.hub.wait_for(lambda: run.state == "completed")
    assert "given back before the job began" in run.job("build").log


# ------------------------------------------------------------------------------------------------------------- stopping


@pytest.mark.parametrize("direct", [False, True])
def test_a_runner_given_back_is_off_github_s_list_at_once_and_the_machine_clean(
    github: FakeGithub, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So long that the test fails if it waits for one that has to be killed.
    monkeypatch.setattr("bullpen.agent.github.listener.STOPPED_WITHIN", 2 * PATIENCE)
    with a_stage(github, direct=direct) as stage:
        stage.serves("4711")
        stage.releases()
        stage.reported(SignalKind.REMOVE_REG_OK)
        assert github.runners() == []
        stage.reported(SignalKind.CLEAN_OK)
        assert commands(stage) == {}
        left = {path.name for path in (stage.config.directory / "runner").iterdir()}
        assert left == {"bin", ".env", "config.sh", "env.sh", "run.sh", "run-helper.sh.template"}


def test_a_cleaned_runner_serves_the_next_run_under_a_new_name(stage: AgentStage) -> None:
    stage.serves("4711")
    stage.releases()
    stage.reported(SignalKind.CLEAN_OK)
    stage.claimed("4712", "r3")
    stage.reported(SignalKind.REG_OK)
    (runner,) = stage.hub.runners()
    assert (runner.name, runner.labels) == (stage.runner, ("4712",))


def test_a_job_goes_on_when_the_runner_is_given_back_under_it(stage: AgentStage) -> None:
    go = stage.ground / "go"
    run = stage.starts(f"until [[ -e {go} ]]; do sleep 0.02; done")
    stage.serves(str(run.id))
    stage.until(lambda: stage.activity)
    stage.releases()
    stage.until(lambda: any(kind is SignalKind.REMOVE_REG_FAILED for kind, _, _ in stage.store.reports))
    assert stage.store.reports[-1][2].startswith("busy: ")
    go.touch()
    stage.until(lambda: any(kind is SignalKind.CLEAN_OK for kind, _, _ in stage.store.reports))
    assert run.conclusion == "success"
    assert [kind for kind, at, _ in stage.store.reports if at == "r2"] == [
        SignalKind.REMOVE_REG_FAILED,
        SignalKind.REMOVE_REG_OK,
        SignalKind.CLEAN_OK,
    ]


def test_a_claim_that_is_rolled_back_while_it_registers_leaves_no_registration(stage: AgentStage) -> None:
    stage.claimed("4711")
    stage.until(lambda: stage.store.passes)
    stage.releases()
    stage.reported(SignalKind.CLEAN_OK)
    assert stage.hub.runners() == []


# ------------------------------------------------------------------------------------------------------ ended by itself


def test_a_runner_that_ends_is_started_again_under_its_registration(stage: AgentStage) -> None:
    stage.serves("4711")
    first = the_listener(stage)
    os.kill(first, signal.SIGKILL)
    stage.until(lambda: listeners(stage) - {first})
    stage.until(lambda: stage.hub.is_online(stage.runner))
    assert len(stage.store.passes) == 1


def test_a_runner_that_github_forgot_is_registered_again(stage: AgentStage) -> None:
    stage.serves("4711")
    stage.hub.delete_runner(stage.runner)
    stage.until(lambda: len(stage.store.passes) == 2 and stage.agent._progress.registered_for == "r1")
    stage.until(lambda: stage.hub.runners() and stage.hub.is_online(stage.runner))
    assert [kind for kind, _, _ in stage.store.reports].count(SignalKind.REG_OK) == 1


def test_a_runner_that_ends_again_and_again_ends_the_agent(stage: AgentStage) -> None:
    stage.serves("4711")
    script = stage.config.directory / "runner" / "run.sh"
    script.write_text("#!/bin/bash\necho broken\n")
    os.kill(the_listener(stage), signal.SIGKILL)
    with pytest.raises(Over, match="again and again: its last lines:\nbroken"):
        stage.until(lambda: False)


def test_a_runner_that_dies_under_its_job_ends_the_agent_which_still_names_the_job(stage: AgentStage) -> None:
    run = stage.starts("sleep 600")
    stage.serves(str(run.id))
    stage.until(lambda: stage.activity)
    os.kill(the_listener(stage), signal.SIGKILL)
    with pytest.raises(Over, match="ended while its job ran"):
        stage.until(lambda: False)
    assert stage.store.beats[-1] is not None


def test_a_version_that_github_refuses_ends_the_agent_by_name(stage: AgentStage) -> None:
    stage.serves("4711")
    stage.hub.oldest_version = "2.400.0"
    os.kill(the_listener(stage), signal.SIGKILL)
    with pytest.raises(Over, match=r"GitHub refuses runner version 2\.336\.0"):
        stage.until(lambda: False)


# ------------------------------------------------------------------------------------------------------------------ jit


def test_each_job_of_a_jit_runner_has_a_registration_of_its_own_and_a_clean_machine(github: FakeGithub) -> None:
    with a_stage(github, jit=True) as stage:
        run = stage.starts('if [[ -e $HOME/planted ]]; then exit 1; fi; touch "$HOME/planted"')
        stage.serves(str(run.id))
        stage.until(lambda: run.state == "completed")
        github.rerun(run)
        stage.until(lambda: run.attempt == 2 and run.state == "completed")
        assert run.conclusion == "success"
        names = [run.job("build", attempt).runner_name for attempt in (1, 2)]
        assert len(set(names)) == 2
        stage.until(lambda: len(stage.store.passes) == 3)
        stage.releases()
        stage.reported(SignalKind.CLEAN_OK)
        assert github.runners() == []
