"""How long a job waited and ran, by its record and its story."""

from datetime import UTC, datetime, timedelta

from bullpen.model.job import FINISHED, QUEUED, RUNNING, Durations, Job, State, began_at, durations
from bullpen.model.transition import StoryLine
from bullpen.schema.job import job_of, jobs_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def a_job(state: State, queued: float = 0.2, ended: float | None = None) -> Job:
    at = None if ended is None else after(ended)
    return Job(id="j-1", version=1, state=state, run_id="r", command=("a",), queued_at=after(queued), finished_at=at)


def steps(**found: float) -> list[StoryLine]:
    """`assign_2` is the second `assign`."""
    return [
        StoryLine(version, name.partition("_")[0], "", after(at), "", "")
        for version, (name, at) in enumerate(found.items(), 1)
    ]


def test_a_job_shows_fractions_of_seconds_although_its_times_have_none() -> None:
    answer = job_of(a_job(FINISHED, ended=1.7), steps(submit=0.2, assign=0.9, bind=1.0, finish=1.7))
    assert (answer.waited_seconds, answer.ran_seconds) == (0.7, 0.8)
    assert answer.queued_at == "2026-01-01T12:00:00Z"


def test_a_job_that_waits_or_runs_shows_what_is_over() -> None:
    waits = job_of(a_job(QUEUED), steps(submit=0.2))
    runs = job_of(a_job(RUNNING), steps(submit=0.2, assign=0.9))
    assert (waits.waited_seconds, waits.ran_seconds) == (None, None)
    assert (runs.waited_seconds, runs.ran_seconds) == (0.7, None)


def test_only_the_last_runner_of_a_job_counts() -> None:
    lost = steps(submit=0, assign=1, reschedule=9, assign_2=10, finish=12)
    assert durations(a_job(FINISHED, 9, 12), began_at((one.step, one.at) for one in lost)) == Durations(1, 2)


def test_a_job_that_ended_in_the_queue_did_not_run() -> None:
    lost = steps(submit=0, assign=1, reschedule=9, give_up=12)
    assert durations(a_job(FINISHED, 9, 12), began_at((one.step, one.at) for one in lost)) == Durations(3, None)


def test_a_list_leaves_out_durations_as_it_leaves_out_stories() -> None:
    (listed,) = jobs_of("r", [a_job(FINISHED, ended=1.7)]).jobs
    assert (listed.waited_seconds, listed.ran_seconds, listed.story) == (None, None, [])
