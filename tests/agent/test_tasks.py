"""What takes an agent time: begun, then checked until it is over."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agent.config import Config
from bullpen.agent.link import Order
from bullpen.agent.progress import Job, Phase, Progress, Record, State
from bullpen.agent.tasks import Tasks
from bullpen.engines.processes import end_tree, identify, mark_of

PATIENCE = 20.0
IDLE = Record(State.IDLE, "", "r2", 0.0)


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Config]:
    for name in ("work", "home", "tmp"):
        (tmp_path / name).mkdir()
    # Unlike any other: cleaning ends whatever carries the mark.
    name = f"i-{time.monotonic_ns():016x}"
    yield Config(name, tmp_path, tmp_path, 5.0, 60.0, 60.0, "", 30.0, ())
    end_tree(None, mark_of(name), patience=10.0)


def a_progress() -> Progress:
    return Progress(began=time.monotonic())


def an_order(*command: str) -> Order:
    return Order(Job("j-1", 1, "r1", time.monotonic()), command)


def checked(tasks: Tasks, progress: Progress, done: Callable[[Progress], bool]) -> Progress:
    """Check as the loop does, until `done`."""
    end = time.monotonic() + PATIENCE
    while not done(progress):
        assert time.monotonic() < end, progress
        select.select(tasks.outputs(), [], [], 0.01)
        progress = tasks.check(progress)
    return progress


def booted(tasks: Tasks) -> Progress:
    over = (Phase.DONE, Phase.FAILED)
    progress = checked(tasks, tasks.begin_boot(a_progress()), lambda progress: progress.boot.phase in over)
    return read_out(tasks, progress)


def read_out(tasks: Tasks, progress: Progress) -> Progress:
    """Check until nobody can print any more."""
    return checked(tasks, progress, lambda _: not tasks.outputs())


def test_without_a_script_the_boot_is_over_at_once(config: Config) -> None:
    assert Tasks(config, print).begin_boot(a_progress()).boot.phase is Phase.DONE


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
    progress = tasks.begin_job(a_progress(), an_order("sleep", "600"), "run-1")
    (pid,) = tasks.awaited()
    progress = tasks.end_job(progress)
    assert identify(pid) is None
    assert progress.job is not None
    assert progress.job.exit_code == -signal.SIGKILL
    assert tasks.awaited() == []
    read_out(tasks, progress)


def test_a_job_that_ended_by_itself_keeps_its_exit_code(config: Config) -> None:
    tasks = Tasks(config, print)
    progress = tasks.begin_job(a_progress(), an_order("sh", "-c", "exit 4"), "run-1")
    job = checked(tasks, progress, lambda p: p.job is not None and p.job.exit_code is not None).job
    assert job is not None
    assert job.exit_code == 4
    read_out(tasks, progress)


def test_cleaning_removes_what_jobs_left_and_printed(config: Config) -> None:
    tasks = Tasks(config, print)
    progress = booted(tasks)
    (config.places["work"] / "planted").write_text("token")
    (config.directory / "jobs").mkdir()
    (config.directory / "jobs" / "j-1.log").write_text("token")
    progress = tasks.begin_cleaning(progress, IDLE, keep=True)
    done = checked(tasks, progress, lambda p: p.cleaning is not None and p.cleaning.phase is not Phase.UNDER_WAY)
    assert done.cleaning is not None
    assert done.cleaning.phase is Phase.DONE, done.cleaning.text
    assert [*config.places["work"].iterdir(), *(config.directory / "jobs").iterdir()] == []
