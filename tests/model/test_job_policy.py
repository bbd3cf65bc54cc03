"""Job policy, for every process that writes the record: waits, losses, and which result counts."""

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import BY, NOW
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import job_policy
from bullpen.model.job import FINISHED, LOSSES, QUEUED, RUNNING, CancelAsked, Job, Result, ask_to_cancel
from bullpen.model.job_policy import FIRST_WAIT, Assignment, JobPolicy
from bullpen.model.worker import ACTIVE, Worker

POLICY = JobPolicy(verify=120.0, purge=3600.0)
HELD = Job(
    "j-1",
    RUNNING,
    3,
    "run-1",
    ("make",),
    fence=2,
    worker="i-1/a",
    epoch=4,
    instance_id="i-1",
    bound=True,
    queued_at=NOW,
)
CURRENT = Assignment("i-1/a", 4, 2)


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def assigned(job: Job) -> Job:
    """As soon as it may be."""
    worker = Worker("i-1/a", ACTIVE, 1, instance_id="i-1", epoch=4)
    return job_policy.assign(job, POLICY, job.not_before or NOW, worker=worker, instance_id="i-1").after


def test_an_assignment_has_to_be_taken_up_in_time() -> None:
    job = assigned(Job("j-1", QUEUED, 1, "run-1", ("make",), queued_at=NOW))
    assert (job.worker, job.epoch, job.fence, job.verify_by) == ("i-1/a", 4, 1, NOW + seconds(120))


@pytest.mark.parametrize(
    ("exit_code", "reported", "result"),
    [
        (0, Result.NONE, Result.SUCCEEDED),
        (3, Result.NONE, Result.FAILED),
        (-9, Result.TIMED_OUT, Result.TIMED_OUT),
    ],
)
def test_the_exit_code_decides_where_the_worker_names_no_result(
    exit_code: int, reported: Result, result: Result
) -> None:
    job = job_policy.finish(HELD, POLICY, NOW, assignment=CURRENT, exit_code=exit_code, result=reported).after
    assert (job.state, job.result, job.exit_code, job.purge_at) == (FINISHED, result, exit_code, NOW + seconds(3600))


@pytest.mark.parametrize("other", [Assignment("i-2/b", 4, 2), Assignment("i-1/a", 5, 2), Assignment("i-1/a", 4, 1)])
def test_only_the_current_assignment_may_report_a_result(other: Assignment) -> None:
    assert not other.is_current(HELD)
    with pytest.raises(Conflict):
        job_policy.finish(HELD, POLICY, NOW, assignment=other, exit_code=0)


def test_a_repeated_result_is_recognised_and_that_of_another_assignment_is_not() -> None:
    done = job_policy.finish(HELD, POLICY, NOW, assignment=CURRENT, exit_code=3).after
    given_up = job_policy.give_up(HELD, POLICY, NOW, by=BY, why="its run is over").after
    assert CURRENT.has_finished(done, 3)
    assert not CURRENT.has_finished(done, 0)
    assert not CURRENT.has_finished(given_up, 3)
    assert not CURRENT.has_finished(HELD, 3)
    for job in (done, given_up):
        assert not CURRENT.is_current(job)
        with pytest.raises(InvalidTransition):
            job_policy.finish(job, POLICY, NOW, assignment=CURRENT, exit_code=3)


def test_a_job_waits_twice_as_long_after_each_loss_until_it_fails() -> None:
    policy, job, waits = JobPolicy(120.0, 3600.0, losses=LOSSES), HELD, []
    for _ in range(LOSSES - 1):
        lost = job_policy.give_back(job, policy, NOW, by=BY, why="it left").after
        assert lost.not_before is not None
        assert (lost.state, lost.avoid, lost.worker) == (QUEUED, "i-1/a", "")
        waits.append((lost.not_before - NOW).total_seconds())
        job = assigned(lost)
    assert waits == [FIRST_WAIT, 2 * FIRST_WAIT]
    ended = job_policy.give_back(job, policy, NOW, by=BY, why="it left").after
    assert (ended.state, ended.result, ended.reason) == (
        FINISHED,
        Result.FAILED,
        "lost 3 times; the last time: it left",
    )


@pytest.mark.parametrize("allowed", range(1, LOSSES + 1))
def test_the_settings_say_how_many_workers_a_job_may_lose(allowed: int) -> None:
    policy, lost = JobPolicy(120.0, 3600.0, losses=allowed), 0
    job = HELD
    while job.state is not FINISHED:
        job = job_policy.give_back(job, policy, NOW, by=BY, why="").after
        lost += 1
        if job.state is QUEUED:
            job = assigned(job)
    assert lost == allowed


def test_a_job_that_is_being_cancelled_is_not_given_to_another_worker() -> None:
    ended = job_policy.give_back(replace(HELD, cancelling=True), POLICY, NOW, by=BY, why="it left").after
    assert (ended.state, ended.result, ended.reason) == (FINISHED, Result.CANCELLED, "cancelled; it left")


def test_a_job_that_was_cancelled_keeps_the_reason_when_its_worker_ends_it() -> None:
    asked = ask_to_cancel(HELD, CancelAsked(at=NOW, by=BY, why="bad failed")).after
    ended = job_policy.finish(
        asked, POLICY, NOW, assignment=CURRENT, exit_code=-9, result=Result.CANCELLED, why="its processes were ended"
    ).after
    assert ended.reason == "bad failed; its processes were ended"
    assert job_policy.give_back(asked, POLICY, NOW, by=BY, why="it left").after.reason == "bad failed; it left"
    finished = job_policy.finish(asked, POLICY, NOW, assignment=CURRENT, exit_code=0).after
    assert (finished.result, finished.reason) == (Result.SUCCEEDED, ""), "it ended before it was told"
