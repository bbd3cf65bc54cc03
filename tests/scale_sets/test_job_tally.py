"""Jobs of scale sets are counted with the labels of GitHub's own controller, as far as these are bounded."""

from datetime import timedelta
from typing import Any

from builders import NOW
from bullpen.ports import JobMessage, JobMessageKind
from bullpen.scale_sets.job_tally import BOUNDS, MOST_REPOSITORIES, MOST_TIMED, OTHER, JobGroup, JobTally


def started(**changed: Any) -> JobMessage:
    at = NOW + timedelta(seconds=4.5)
    fields = {
        "repository": "acme/web",
        "event": "push",
        "runner": "r-1",
        "assigned_at": NOW,
        "started_at": at,
        **changed,
    }
    return JobMessage(JobMessageKind.STARTED, **fields)


def completed(**changed: Any) -> JobMessage:
    times = {"started_at": NOW, "finished_at": NOW + timedelta(seconds=95)}
    fields = {"repository": "acme/web", "event": "push", "runner": "r-1", "result": "succeeded", **times, **changed}
    return JobMessage(JobMessageKind.COMPLETED, **fields)


def test_a_start_counts_with_its_seconds_since_the_assignment() -> None:
    tally = JobTally()
    tally.note(started())
    group = JobGroup("acme", "web", "push")
    assert tally.started == {group: 1}
    assert tally.startup[group].total == 4.5
    assert tally.startup[group].cumulative()[BOUNDS.index(5)] == 1
    assert tally.startup[group].cumulative()[BOUNDS.index(4)] == 0


def test_an_end_counts_with_its_result_and_the_seconds_that_the_job_took() -> None:
    tally = JobTally()
    tally.note(completed(result="Failed"))
    group = JobGroup("acme", "web", "push", "failed")
    assert tally.completed == {group: 1}
    assert tally.execution[group].total == 95


def test_a_job_that_ended_without_a_runner_did_not_end_on_one() -> None:
    tally = JobTally()
    tally.note(completed(runner="", result="canceled"))
    assert not tally.completed


def test_times_that_the_ci_does_not_say_or_that_run_backwards_do_no_harm() -> None:
    tally = JobTally()
    tally.note(started(assigned_at=None))
    tally.note(started(assigned_at=NOW + timedelta(seconds=60)))
    assert tally.started.total() == 2
    assert [one.total for one in tally.startup.values()] == [0.0]


def test_words_that_github_does_not_have_and_repositories_beyond_the_limit_are_counted_together() -> None:
    tally = JobTally()
    for number in range(3 * MOST_REPOSITORIES):
        for event in ("push", f"event-{number}", 'x"} 1\nforged 2'):
            tally.note(started(repository=f"acme/web-{number}", event=event))
            tally.note(completed(repository=f"acme/web-{number}", event=event, result=f"result-{number}"))
    assert {group.event for group in tally.started} == {"push", OTHER}
    assert {group.result for group in tally.completed} == {OTHER}
    assert len({group.repository for group in tally.started}) == MOST_REPOSITORIES + 1
    assert tally.started.total() == tally.completed.total() == 9 * MOST_REPOSITORIES
    assert max(len(tally.startup), len(tally.execution)) <= MOST_TIMED + 1
    assert sum(one.count for one in tally.startup.values()) == 9 * MOST_REPOSITORIES
