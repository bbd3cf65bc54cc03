"""What a job hears when its command is not found or cannot be executed: which one, where, and the shell's exit code."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.test_tasks import an_order, checked
from bullpen.agent.config import Config
from bullpen.agent.progress import AgentProgress, HeldJob
from bullpen.agent.store.jobs import verdict
from bullpen.agent.tasks import Tasks
from bullpen.host.processes import end_tree, mark_of
from bullpen.model.job import Result


class Log:
    """Keeps what a job printed, and whether it was closed after it."""

    def __init__(self) -> None:
        self.content, self.is_closed = b"", False

    def write(self, content: bytes) -> None:
        assert not self.is_closed, f"{content!r} comes after the end"
        self.content += content

    def close(self) -> None:
        self.is_closed = True


Runs = Callable[..., tuple[HeldJob, str]]


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Config]:
    for name in ("work", "home", "tmp"):
        (tmp_path / name).mkdir()
    name = f"i-{time.monotonic_ns():016x}"
    yield Config(name, tmp_path, tmp_path, 5.0, 60.0, 60.0, "", 30.0, ())
    end_tree(None, mark_of(name), patience=10.0)


@pytest.fixture
def runs(config: Config) -> Runs:
    """Runs a command as a job; its end, and all that its log has."""

    def run(*command: str) -> tuple[HeldJob, str]:
        logs: list[Log] = []

        def open_log() -> Log:
            logs.append(Log())
            return logs[-1]

        tasks = Tasks(config, lambda text: None)
        progress = AgentProgress(began=time.monotonic())
        progress = tasks.job.begin(progress, an_order(*command), "run-1", open_log)

        def is_over(now: AgentProgress) -> bool:
            return now.job is not None and now.job.exit_code is not None and not tasks.outputs()

        ended = checked(tasks, progress, is_over)
        assert ended.job is not None
        assert all(log.is_closed for log in logs)
        return ended.job, b"".join(log.content for log in logs).decode()

    return run


def work(config: Config, name: str, content: str, mode: int = 0o755) -> Path:
    path = config.places["work"] / name
    path.write_text(content)
    path.chmod(mode)
    return path


def test_a_program_that_is_not_installed_is_named_with_the_runner_and_its_path(runs: Runs, config: Config) -> None:
    job, log = runs("no-such-program", "--help")
    said = f"no-such-program: not found on the runner {config.instance_id} (PATH={os.environ['PATH'][:50]}"
    assert job.exit_code == 127
    assert said in log
    result, why = verdict(job)
    assert result is Result.FAILED
    assert why.startswith(said)
    assert "--sync" not in why, "files would not help"


def test_a_file_that_is_not_in_the_working_directory_is_named_and_an_empty_one_is_pointed_out(
    runs: Runs, config: Config
) -> None:
    job, log = runs("./bench.sh")
    assert (job.exit_code, "./bench.sh: no such file in the job's working directory" in log) == (127, True)
    assert "the working directory is empty" in log
    assert "--sync" in job.why
    work(config, "other", "")
    job, log = runs("./bench.sh")
    assert "./bench.sh: no such file in the job's working directory" in log
    assert "--sync" not in job.why + log, "it has files: they were sent"


def test_an_absolute_path_is_looked_for_on_the_runner(runs: Runs, config: Config) -> None:
    job, _ = runs("/no/such/program")
    assert job.exit_code == 127
    assert job.why.startswith(f"/no/such/program: no such file on the runner {config.instance_id}")


@pytest.mark.parametrize(
    ("content", "mode", "code", "said"),
    [
        ("#!/bin/sh\n", 0o644, 126, "./it: not executable; chmod +x"),
        ("#!/no/such/python3 -u\n", 0o755, 127, "./it: its interpreter '/no/such/python3' was not found on the runner"),
        ("\x7fELF but not really", 0o755, 126, "./it: the runner i-"),
    ],
)
def test_a_file_that_cannot_be_executed_says_why(
    runs: Runs, config: Config, content: str, mode: int, code: int, said: str
) -> None:
    work(config, "it", content, mode)
    job, log = runs("./it")
    assert job.exit_code == code
    assert job.why.startswith(said)
    assert said in log


def test_a_directory_is_no_program(runs: Runs, config: Config) -> None:
    (config.places["work"] / "src").mkdir()
    job, _ = runs("./src")
    assert (job.exit_code, job.why) == (126, "./src: is a directory, not a program")


def test_a_working_directory_that_is_gone_is_named(runs: Runs, config: Config) -> None:
    config.places["work"].rmdir()
    job, _ = runs("true")
    assert job.exit_code == 127
    assert "working directory" in job.why


def test_a_shell_that_finds_no_command_is_explained_after_its_own_words(runs: Runs) -> None:
    job, log = runs("sh", "-c", "no-such-program")
    assert job.exit_code == 127
    first, *_, last = log.splitlines()
    assert "no-such-program" in first
    assert last.startswith("[exit code 127: the job called a command that was not found; the working directory is")
    assert verdict(job)[1] == last.strip("[]")


def test_a_shell_that_may_not_execute_a_file_is_explained(runs: Runs, config: Config) -> None:
    work(config, "it", "#!/bin/sh\n", 0o644)
    job, log = runs("sh", "-c", "./it")
    assert job.exit_code == 126
    assert "[exit code 126: the job called a file that could not be executed" in log


def test_every_other_exit_code_speaks_for_itself(runs: Runs) -> None:
    job, log = runs("sh", "-c", "echo said; exit 3")
    assert (log, job.why, verdict(job)[1]) == ("said\n", "", "exit code 3")


def test_a_name_of_a_program_that_is_no_name_stays_on_one_line(runs: Runs) -> None:
    job, log = runs("no\nsuch" + "x" * 5000)
    assert job.exit_code == 127
    assert "\n" not in job.why
    assert len(job.why) < 1000, "it is stored with the job"
    assert "no\\nsuch" in log


def test_output_of_a_job_that_closes_it_and_runs_on_ends_with_the_explanation(runs: Runs) -> None:
    job, log = runs("sh", "-c", "echo said; exec >&- 2>&-; sleep 0.2; exit 127")
    assert job.exit_code == 127
    assert log.startswith("said\n[exit code 127")
