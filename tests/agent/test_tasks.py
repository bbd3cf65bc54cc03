"""What takes an agent time: begun, then checked until it is over."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agent import collect_artifacts
from bullpen.agent.child_process import Child
from bullpen.agent.config import Config
from bullpen.agent.progress import AgentProgress, End, HeldJob, InstanceRecord, InstanceState, Phase, RoundAttempt
from bullpen.agent.store.base import Order
from bullpen.agent.tasks import Tasks
from bullpen.host.processes import end_tree, identify, mark_of

PATIENCE = 120.0  # seconds; what is waited for takes milliseconds
IDLE = InstanceRecord(InstanceState.IDLE, "", "r2", 0.0)


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Config]:
    for name in ("work", "home", "tmp"):
        (tmp_path / name).mkdir()
    # Unlike any other: cleaning ends whatever carries the mark.
    name = f"i-{time.monotonic_ns():016x}"
    yield Config(name, tmp_path, tmp_path, 5.0, 60.0, 60.0, "", 30.0, ())
    end_tree(None, mark_of(name), patience=10.0)


class NoLog:
    """Takes a job's output and forgets it."""

    def write(self, content: bytes) -> None: ...

    def close(self) -> None: ...


def a_progress() -> AgentProgress:
    return AgentProgress(began=time.monotonic())


def an_order(*command: str) -> Order:
    return Order(HeldJob("j-1", 1, "r1", time.monotonic()), command)


def checked(tasks: Tasks, progress: AgentProgress, done: Callable[[AgentProgress], bool]) -> AgentProgress:
    """Check as the loop does, until `done`."""
    end = time.monotonic() + PATIENCE
    while not done(progress):
        assert time.monotonic() < end, progress
        select.select(tasks.outputs(), [], [], 0.01)
        progress = tasks.check(progress)
    return progress


def booted(tasks: Tasks) -> AgentProgress:
    over = (Phase.DONE, Phase.FAILED)
    progress = checked(tasks, tasks.boot.begin(a_progress()), lambda progress: progress.boot.phase in over)
    return read_out(tasks, progress)


def read_out(tasks: Tasks, progress: AgentProgress) -> AgentProgress:
    """Check until no process holds an output any more."""
    return checked(tasks, progress, lambda _: not tasks.outputs())


def test_without_a_script_the_boot_is_over_at_once(config: Config) -> None:
    assert Tasks(config, print).boot.begin(a_progress()).boot.phase is Phase.DONE


def test_what_is_missing_for_the_boot_ends_the_agent_with_its_own_error(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bullpen.agent.job_user", None)
    with pytest.raises(ModuleNotFoundError):
        Tasks(replace(config, runner_user="runner"), print).boot.begin(a_progress())


def test_a_script_names_its_own_interpreter(config: Config) -> None:
    progress = booted(Tasks(replace(config, pre_runner_script="#!/bin/cat\nhello\n"), print))
    assert progress.boot.phase is Phase.DONE
    assert (config.directory / "pre-runner.log").read_text() == "#!/bin/cat\nhello\n"


@pytest.mark.parametrize(
    ("broken", "why"),
    [({"pre_runner_script": "#!/no/such/shell"}, "could not be started"), ({"keep": ("home/../..",)}, "keep pattern")],
)
def test_a_boot_that_cannot_begin_fails_with_its_reason(config: Config, broken: dict[str, object], why: str) -> None:
    progress = booted(Tasks(replace(config, **broken), print))  # type: ignore[arg-type]
    assert progress.boot.phase is Phase.FAILED
    assert why in progress.boot.text


def test_a_job_that_is_ended_is_gone_when_it_counts_as_ended(config: Config) -> None:
    tasks = Tasks(config, print)
    progress = tasks.job.begin(a_progress(), an_order("sleep", "600"), "run-1", NoLog)
    (pid,) = tasks.awaited()
    progress = tasks.job.end(progress, End.CANCELLED)
    assert identify(pid) is None
    assert progress.job is not None
    assert progress.job.exit_code == -signal.SIGKILL
    assert tasks.awaited() == []
    read_out(tasks, progress)


def test_a_job_that_ended_by_itself_keeps_its_exit_code(config: Config) -> None:
    tasks = Tasks(config, print)
    progress = tasks.job.begin(a_progress(), an_order("sh", "-c", "exit 4"), "run-1", NoLog)
    job = checked(tasks, progress, lambda p: p.job is not None and p.job.exit_code is not None).job
    assert job is not None
    assert job.exit_code == 4
    read_out(tasks, progress)


class Noted:
    """Takes a job's output."""

    def __init__(self) -> None:
        self.lines = b""

    def write(self, content: bytes) -> None:
        self.lines += content

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("command", "end", "ended"),
    [
        ("exit 0", End.CANCELLED, (0, End.CANCELLED)),
        ("exit 4", End.CANCELLED, (4, End.RAN)),
        ("exit 0", End.RELEASED, (0, End.RAN)),
        ("exit 0", End.LOST, (0, End.LOST)),
    ],
)
def test_collecting_artifacts_ends_at_once_and_leaves_nothing(
    config: Config, monkeypatch: pytest.MonkeyPatch, command: str, end: End, ended: tuple[int, End]
) -> None:
    def collect_for_ever(*_: object) -> str:
        signal.pause()
        raise AssertionError

    monkeypatch.setattr(collect_artifacts, "collect", collect_for_ever)
    (config.home / "jobs").mkdir()
    tasks, log = Tasks(config, print), Noted()
    order = replace(an_order("sh", "-c", command), artifacts=("*",))
    collect_artifacts.part_of(config, order).write_bytes(b"a part")
    progress = tasks.job.begin(a_progress(), order, "run-1", lambda: log)
    progress = checked(tasks, progress, lambda p: p.job is not None and p.job.is_over)
    (pid,) = tasks.awaited()
    progress = tasks.job.end(progress, end)
    assert identify(pid) is None
    assert progress.job is not None
    assert (progress.job.exit_code, progress.job.end) == ended
    assert log.lines == b"[bullpen: no artifacts: the job was ended while they were collected]\n"
    assert list((config.home / "jobs").iterdir()) == []
    read_out(tasks, progress)


def begun(tasks: Tasks, what: str) -> AgentProgress:
    if what == "script":
        return tasks.boot.begin(a_progress())
    return tasks.job.begin(a_progress(), an_order("sh", "-c", "exit 4"), "run-1", NoLog)


@pytest.mark.parametrize("what", ["script", "job"])
def test_a_child_that_ends_between_its_output_and_its_exit_code_is_waited_on_no_more(
    config: Config, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = Tasks(replace(config, pre_runner_script="exit 4"), print)
    progress = begun(tasks, what)
    pump = Child.pump

    def pump_too_early(child: Child) -> None:
        monkeypatch.setattr(Child, "pump", pump)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(Child, "pump", pump_too_early)
    progress = tasks.check(progress)
    assert tasks.awaited() == []
    assert tasks.outputs() == []


def surprising(*_: object) -> None:
    raise RuntimeError("surprise")


def test_something_unexpected_costs_the_job_and_the_next_one_runs(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    tasks = Tasks(config, said.append)
    progress = tasks.job.begin(a_progress(), an_order("sleep", "600"), "run-1", NoLog)
    (pid,) = tasks.awaited()
    with monkeypatch.context() as broken:
        broken.setattr(Child, "pump", surprising)
        progress = tasks.check(progress)
    assert progress.job is not None
    assert progress.job.exit_code == -signal.SIGKILL
    assert identify(pid) is None
    assert "in surprising" in said[0]
    progress = tasks.job.begin(progress.job_settled(), an_order("sh", "-c", "exit 4"), "run-1", NoLog)
    job = checked(tasks, progress, lambda p: p.job is not None and p.job.exit_code is not None).job
    assert job is not None
    assert job.exit_code == 4


def test_something_unexpected_fails_the_boot_with_its_reason(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks(replace(config, pre_runner_script="sleep 600"), print)
    progress = tasks.boot.begin(a_progress())
    with monkeypatch.context() as broken:
        broken.setattr(Child, "pump", surprising)
        progress = tasks.check(progress)
    assert (progress.boot.phase, tasks.awaited()) == (Phase.FAILED, [])
    assert "RuntimeError('surprise')" in progress.boot.text


def test_something_unexpected_never_attests(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks(config, print)
    progress = tasks.cleaning.begin(booted(tasks), IDLE, keep=True)
    with monkeypatch.context() as broken:
        broken.setattr("bullpen.agent.cleaning.clean.end_tree", surprising)
        cleaning = tasks.check(progress).cleaning
    assert cleaning is not None
    assert cleaning.phase is Phase.FAILED
    assert tasks.must_be_checked_at() is None


def cleaned(tasks: Tasks, progress: AgentProgress) -> RoundAttempt:
    progress = tasks.cleaning.begin(progress, IDLE, keep=True)
    done = checked(tasks, progress, lambda p: p.cleaning is not None and p.cleaning.phase is not Phase.UNDER_WAY)
    assert done.cleaning is not None
    return done.cleaning


def test_cleaning_removes_what_jobs_left(config: Config) -> None:
    tasks = Tasks(config, print)
    progress = booted(tasks)
    (config.places["work"] / "planted").write_text("token")
    cleaning = cleaned(tasks, progress)
    assert cleaning.phase is Phase.DONE, cleaning.text
    assert [*config.places["work"].iterdir()] == []


def test_cleaning_removes_what_jobs_left_around_their_places_and_spares_what_is_the_agent_s(config: Config) -> None:
    log = config.directory / "agent.log"
    log.write_text("boots\n")
    tasks = Tasks(replace(config, pre_runner_script="echo ready"), print)
    progress = booted(tasks)
    (config.directory / "planted" / "deeper").mkdir(parents=True)
    (config.directory / "token").write_text("token")
    with log.open("a") as file:
        file.write("cleans\n")
    cleaning = cleaned(tasks, progress)
    assert cleaning.phase is Phase.DONE, cleaning.text
    left = sorted(entry.name for entry in config.directory.iterdir())
    assert left == ["agent.log", "home", "pre-runner", "pre-runner.log", "tmp", "work"]


@pytest.mark.parametrize("own", ["agent.log", "pre-runner"])
def test_a_file_of_the_agent_that_a_job_replaced_makes_the_instance_dirty(config: Config, own: str) -> None:
    (config.directory / "agent.log").write_text("boots\n")
    tasks = Tasks(replace(config, pre_runner_script="true"), print)
    progress = booted(tasks)
    (config.directory / "token").write_text("token")
    (config.directory / "token").rename(config.directory / own)
    cleaning = cleaned(tasks, progress)
    assert cleaning.phase is Phase.FAILED
    assert f"instance/{own} was changed" in cleaning.text
