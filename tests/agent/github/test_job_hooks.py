"""The scripts that GitHub's runner executes around a job, and the agent's ears."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.github.fixtures import AS_JOBS, USER, a_ground
from bullpen.agent.account import account_of
from bullpen.agent.github.job_hooks import LONGEST, AdmissionRequest, Hooks
from bullpen.host.processes import descendants, identify

pytestmark = pytest.mark.slow

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


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.agent.github.job_hooks.LOGGED_WITHIN", 0.05)


@pytest.fixture
def hooks(directory: Path) -> Iterator[Hooks]:
    hooks = Hooks(directory, account_of(USER) if USER else None)
    hooks.open()
    yield hooks
    hooks.close()


REFUSED = -signal.SIGKILL
"""How the worker of a refused job ends."""


def begin(hooks: Hooks, event: str = "started", **told: str) -> subprocess.Popen[str]:
    """As a worker does it, as the jobs' user: one that always has another step."""
    steps = ["bash", "-c", 'trap "" INT; bash -e "$0"; code=$?; echo always; exit $code', str(hooks.path(event))]
    return subprocess.Popen(
        steps, env=TOLD | told, stdout=subprocess.PIPE, text=True, start_new_session=True, **AS_JOBS
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=120)
    return process.returncode, said


def heard(hooks: Hooks) -> AdmissionRequest:
    assert select.select([hooks], [], [], 20)[0]
    (asked,) = hooks.asked()
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
    assert end(process) == (0, "always\n")


def test_the_agent_hears_what_a_scale_set_is_judged_by(hooks: Hooks) -> None:
    about = {
        "REPOSITORY_ID": "700",
        "EVENT_NAME": "pull_request",
        "REF": "refs/pull/5/mergé",
        "ACTOR": "dependabot[bot]",
    }
    process = begin(hooks, **{f"GITHUB_{name}": value for name, value in about.items()})
    asked = heard(hooks)
    assert (asked.repository_id, asked.event, asked.ref, asked.actor) == tuple(about.values())
    assert asked.job == "build"
    hooks.answer(asked, "")
    assert end(process) == (0, "always\n")


def test_a_ref_that_is_too_long_is_cut_and_the_job_still_asks(hooks: Hooks) -> None:
    process = begin(hooks, GITHUB_REF=f"refs/heads/{'x' * 5000}")
    asked = heard(hooks)
    assert asked.ref == f"refs/heads/{'x' * 289}"
    hooks.answer(asked, "")
    assert end(process)[0] == 0


def test_a_question_without_what_only_sets_need_is_heard(hooks: Hooks, directory: Path) -> None:
    tell(directory, b"1-1\tstarted\t4711\t1\tacme/widgets\tpool.i-1.r1\tbuild\n")
    asked = heard(hooks)
    assert (asked.job, asked.repository_id, asked.event) == ("build", "", "")


def test_a_refused_job_ends_with_its_worker_and_its_log_says_why(hooks: Hooks) -> None:
    process = begin(hooks)
    hooks.answer(heard(hooks), "This runner serves label 1.")
    assert end(process) == (REFUSED, "::error title=Bullpen::This runner serves label 1.\n")


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_job_that_is_cancelled_before_it_is_admitted_ends_with_its_worker(hooks: Hooks, is_refused: bool) -> None:
    process = begin(hooks)
    asked = heard(hooks)
    if is_refused:
        hooks.answer(asked, "No.")
    os.kill(int(asked.id.partition("-")[0]), signal.SIGTERM)
    code, said = end(process)
    assert (code, "always" in said) == (REFUSED, False)


def test_without_an_agent_the_job_fails_soon_with_the_reason_in_its_log(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agent.github.job_hooks.ANSWER_WITHIN", 3600)  # for which the test does not wait
    hooks = Hooks(directory, account_of(USER) if USER else None)
    hooks.open()
    hooks.close()
    code, said = end(begin(hooks))
    assert (code, "The agent of this machine is gone" in said, "always" in said) == (REFUSED, True, False)


def test_an_agent_that_was_killed_leaves_a_pipe_that_takes_no_question(hooks: Hooks) -> None:
    os.close(hooks.fileno())
    code, said = end(begin(hooks))
    assert (code, "The agent of this machine is gone" in said, "always" in said) == (REFUSED, True, False)
    hooks._ask = os.open(os.devnull, os.O_RDONLY)  # to be closed with the test


def test_without_an_answer_the_job_does_not_wait_for_ever(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.agent.github.job_hooks.ANSWER_WITHIN", 1)
    hooks = Hooks(directory, account_of(USER) if USER else None)
    hooks.open()
    code, said = end(begin(hooks))
    assert (code, "did not answer" in said, "always" in said) == (REFUSED, True, False)
    hooks.close()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_end_of_a_job_is_noted_and_never_fails(hooks: Hooks, is_there: bool, directory: Path) -> None:
    if not is_there:
        os.unlink(directory / "ask")
    assert end(begin(hooks, "completed")) == (0, "always\n")
    assert [asked.is_over for asked in hooks.asked()] == [True] * is_there


def test_an_answer_is_for_the_hook_that_asked_and_for_no_later_one(hooks: Hooks) -> None:
    first = begin(hooks)
    hooks.answer(heard(hooks), "")
    assert end(first)[0] == 0
    second = begin(hooks)
    hooks.answer(heard(hooks), "No.")
    assert end(second)[0] == REFUSED


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
        b"1-1\tstarted\t" + b"1" * 21 + b"\t1\ta/b\tr\tj\n",
        b"1-1\tstarted\t1\t" + b"9" * 3000 + b"\ta/b\tr\tj\n",
        b"1-1\tstarted\t1\t1\ta/" + b"b" * 101 + b"\tr\tj\n",
        b"1-1\tstarted\t1\t1\ta/b\t" + b"r" * 65 + b"\tj\n",
        b"1-1\tstarted\t1\t1\ta/b\tr\t" + b"j" * 201 + b"\n",
    ],
)
def test_a_line_that_is_no_question_is_ignored_and_the_next_question_is_read(
    hooks: Hooks, directory: Path, line: bytes
) -> None:
    tell(directory, line + b"\n")
    assert hooks.asked() == []
    process = begin(hooks)
    hooks.answer(heard(hooks), "")
    assert end(process)[0] == 0


def test_whatever_is_written_not_more_than_one_line_is_kept_and_nothing_of_before(
    hooks: Hooks, directory: Path
) -> None:
    """Not even by a descriptor of the pipe that a job of the last run opened, whatever process has it now."""
    pipe = os.open(directory / "ask", os.O_WRONLY | os.O_NONBLOCK)
    question = b"1-1\tstarted\t1\t1\ta/b\tr\tj\n"
    for _ in range(50):
        with suppress(BlockingIOError):
            os.write(pipe, question * 2000)
        hooks.asked()
        assert len(hooks._heard) <= LONGEST
    with suppress(BlockingIOError):
        os.write(pipe, question * 2000)
    hooks.open()
    assert hooks.asked() == []
    with pytest.raises(BrokenPipeError):
        os.write(pipe, question)
    assert hooks.asked() == []
    os.close(pipe)


def test_a_question_is_in_no_argument_that_other_users_can_see(hooks: Hooks, directory: Path) -> None:
    pipe = os.open(directory / "ask", os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x" * 4096)  # until the question has to wait
    process = begin(hooks)
    until = time.monotonic() + 120
    seen: list[bytes] = []
    while not any(b"timeout" in one for one in seen):
        assert time.monotonic() < until
        seen = arguments(process)
    assert [one for one in seen if b"acme/widgets" in one] == []
    hooks.open()
    end(process)
    os.close(pipe)


def arguments(process: subprocess.Popen[str]) -> list[bytes]:
    """Of all the processes of a hook."""
    found = []
    for one in descendants(identify(process.pid), "no mark"):
        with suppress(OSError):
            found.append(Path(f"/proc/{one.pid}/cmdline").read_bytes())
    return found


@pytest.mark.skipif(not USER, reason="jobs run as we do here")
@pytest.mark.parametrize(
    "deed", ["echo exit 0 >started.sh", "touch answers/1-1", "rm ask", "mv started.sh gone", "cat ask", "touch new"]
)
def test_a_job_cannot_change_how_it_is_judged(hooks: Hooks, directory: Path, deed: str) -> None:
    tried = subprocess.run(["timeout", "5", "bash", "-c", deed], cwd=directory, **AS_JOBS, capture_output=True)
    assert tried.returncode not in (0, 124)
