"""How a job ended, in the words and with the exit code that users see."""

import pytest

from bullpen.agent.progress import End, HeldJob, LeaseHolder
from bullpen.agent.store.jobs import verdict
from bullpen.model.job import FINISHED, Job, Result
from bullpen.run import exit_code_of
from bullpen.schema.job import job_of


def ended(code: int, end: End = End.RAN) -> tuple[Result, str]:
    return verdict(HeldJob("j-1", 1, "round", 0.0, LeaseHolder("i-1/k", 1), 5.0, exit_code=code, end=end))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (3, "exit code 3"),
        (-9, "ended by signal 9 (SIGKILL)"),
        (-11, "ended by signal 11 (SIGSEGV)"),
        (-50, "ended by signal 50"),
    ],
)
def test_a_failed_job_names_its_exit_code_or_the_signal(code: int, why: str) -> None:
    assert ended(code) == (Result.FAILED, why)


def test_a_cancelled_job_says_what_became_of_its_processes() -> None:
    assert ended(-9, End.CANCELLED) == (Result.CANCELLED, "its processes were ended")


def test_every_answer_has_the_exit_code_of_a_shell() -> None:
    job = Job("j-1", FINISHED, 1, "run-1", ("true",), result=Result.FAILED, exit_code=-9)
    assert (job_of(job).exit_code, exit_code_of(job)) == (137, 137)
