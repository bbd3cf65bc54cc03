"""The stand-in for GitHub's runner, started with the configuration of a set."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.github.hub import FakeGithub, JobSpec
from fakes.github.set_caller import SetCaller

RUNNER = Path(__file__).parents[4] / "fakes" / "github" / "runner"
PATIENCE = 120.0
pytestmark = pytest.mark.slow
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(sets: SetCaller, medium: int, tmp_path: Path) -> Iterator[Start]:
    """Starts a runner of the set medium, of this name; it is killed with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(name: str) -> subprocess.Popen[str]:
        directory = tmp_path / name
        shutil.copytree(RUNNER, directory)
        config = sets.configure(medium, name)["encodedJITConfig"]
        environment = {"PATH": "/usr/bin:/bin", "RUNNER_ALLOW_RUNASROOT": "1"}
        command = [str(directory / "run.sh"), "--jitconfig", config]
        with (directory / "output").open("w") as output:
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=output, text=True, start_new_session=True
            )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_it_serves_one_job_of_the_set_and_ends(github: FakeGithub, start: Start, tmp_path: Path) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build", ("medium",), script="echo done by $RUNNER_NAME")])
    process = start("r-1")
    assert process.wait(PATIENCE) == 0
    assert (run.conclusion, run.job("build").log) == ("success", "done by r-1\n")
    assert github.runners() == []
    assert not (tmp_path / "r-1" / ".runner").exists()


def test_it_ends_well_when_github_drops_it_while_it_is_idle(github: FakeGithub, start: Start, tmp_path: Path) -> None:
    process = start("r-1")
    github.wait_for(lambda: github.is_online("r-1"), PATIENCE)
    github.delete_runner("r-1")
    assert process.wait(PATIENCE) == 0
    assert not (tmp_path / "r-1" / ".runner").exists()


def test_a_ghost_goes_on_listening(github: FakeGithub, start: Start, tmp_path: Path) -> None:
    process = start("r-1")
    github.wait_for(lambda: github.is_online("r-1"), PATIENCE)
    github.sets.make_ghost("r-1")
    run = github.start_run("acme/widgets", [JobSpec("build", ("medium",), script="true")])
    start("r-2")
    github.wait_for(lambda: run.state == "completed", PATIENCE)
    assert run.job("build").runner_name == "r-2"
    assert process.poll() is None
