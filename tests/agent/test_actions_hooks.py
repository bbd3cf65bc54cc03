"""The scripts that GitHub's runner executes around a job, and the agent's ears."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.actions_stage import AS_JOBS, USER, a_ground
from bullpen.agent.account import account_of
from bullpen.agent.actions.admission import Asked
from bullpen.agent.actions.hooks import Hooks

TOLD = {
    "PATH": os.environ["PATH"],
    "GITHUB_RUN_ID": "4711",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_REPOSITORY": "acme/widgets",
    "RUNNER_NAME": "pool.i-1.r1",
    "GITHUB_JOB": "build",
}


@pytest.fixture
def directory() -> Iterator[Path]:
    with a_ground() as ground:
        yield ground / "it's here"  # a name that a shell would trip over


@pytest.fixture
def hooks(directory: Path) -> Iterator[Hooks]:
    hooks = Hooks(directory, account_of(USER) if USER else None)
    yield hooks
    hooks.close()


def begin(hooks: Hooks, event: str = "started", **told: str) -> subprocess.Popen[str]:
    """As the runner does it, as the jobs' user."""
    command = ["bash", "-e", str(hooks.path(event))]
    return subprocess.Popen(command, env=TOLD | told, stdout=subprocess.PIPE, text=True, **AS_JOBS)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=20)
    return process.returncode, said


def heard(hooks: Hooks) -> Asked:
    assert select.select([hooks], [], [], 20)[0]
    asked = hooks.asked()
    assert asked is not None
    return asked


def tell(directory: Path, line: bytes) -> None:
    with open(directory / "ask", "wb", buffering=0) as pipe:
        pipe.write(line)


def test_the_agent_hears_which_job_is_about_to_begin(hooks: Hooks) -> None:
    process = begin(hooks)
    asked = heard(hooks)
    assert (asked.run, asked.attempt, asked.repository) == ("4711", "1", "acme/widgets")
    assert (asked.runner, asked.job) == ("pool.i-1.r1", "build")
    hooks.answer(asked, "")
    assert end(process) == (0, "")


def test_a_refused_job_fails_and_its_log_says_why(hooks: Hooks) -> None:
    process = begin(hooks)
    hooks.answer(heard(hooks), "This runner serves label 1.")
    assert end(process) == (1, "::error title=Bullpen::This runner serves label 1.\n")


def test_without_an_agent_the_job_fails_soon_and_says_why(hooks: Hooks, directory: Path) -> None:
    hooks.close()
    began = time.monotonic()
    code, said = end(begin(hooks))
    assert (code, "The agent of this machine is gone" in said) == (1, True)
    assert time.monotonic() - began < 10
    hooks._ask = os.open(os.devnull, os.O_RDONLY)  # to be closed with the test


def test_without_an_answer_the_job_does_not_wait_for_ever(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.agent.actions.hook.ANSWER_WITHIN", 1)
    hooks = Hooks(directory, account_of(USER) if USER else None)
    code, said = end(begin(hooks))
    assert (code, "did not answer" in said) == (1, True)
    hooks.close()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_end_of_a_job_is_noted_and_never_fails(hooks: Hooks, is_there: bool, directory: Path) -> None:
    if not is_there:
        os.unlink(directory / "ask")
    assert end(begin(hooks, "completed")) == (0, "")
    asked = hooks.asked()
    assert (asked is not None and asked.is_over) == is_there


def test_an_answer_is_for_whoever_asked_and_for_nobody_later(hooks: Hooks) -> None:
    first = begin(hooks)
    hooks.answer(heard(hooks), "")
    assert end(first) == (0, "")
    second = begin(hooks)
    hooks.answer(heard(hooks), "No.")
    assert end(second)[0] == 1


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"../../escape\tstarted\t1\t1\ta/b\tr\tj\n",
        b"1-1\tstarted\t1\t1\n",
        b"1-1\tbegun\t1\t1\ta/b\tr\tj\n",
        b"\xff\xfe\n",
        b"x" * 4000,
    ],
)
def test_what_is_no_question_is_not_heard_and_deafens_nobody(hooks: Hooks, directory: Path, line: bytes) -> None:
    tell(directory, line + b"\n")
    assert hooks.asked() is None
    process = begin(hooks)
    hooks.answer(heard(hooks), "")
    assert end(process)[0] == 0


@pytest.mark.skipif(not USER, reason="jobs run as we do here")
@pytest.mark.parametrize(
    "deed", ["echo exit 0 >started.sh", "touch answers/1-1", "rm ask", "mv started.sh gone", "cat ask", "touch new"]
)
def test_a_job_cannot_change_how_it_is_judged(hooks: Hooks, directory: Path, deed: str) -> None:
    tried = subprocess.run(["timeout", "5", "bash", "-c", deed], cwd=directory, **AS_JOBS, capture_output=True)
    assert tried.returncode not in (0, 124)
