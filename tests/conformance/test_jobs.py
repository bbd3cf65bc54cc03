"""What every Jobs promises, and what landing a job's steps through Records promises."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from builders import BY, NOW, later
from bullpen.errors import Conflict
from bullpen.model import job as steps
from bullpen.model.job import FINISHED, QUEUED, Job
from bullpen.model.transition import Change
from bullpen.ports import Delta, Jobs, Logs, Records, Signals, Workers
from conformance.leases import (
    KEY,
    accepted,
    assign,
    assigned,
    bind,
    finish,
    reschedule,
    submit,
    submitted,
)

LONG = 3600.0
"""Seconds that no test waits: a wait that long ends because it was woken."""


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


# ---- landing


async def test_a_job_is_read_as_it_landed_at_every_step(records: Records, jobs: Jobs) -> None:
    everything: dict[str, Any] = {
        "name": "täst 'it'",
        "index": 7,
        "timeout": 1.5,
        "capability": "gpu",
        "side_effects": True,
    }
    change: Change[Job] = submit(at=later(0.000001), **everything)
    cancel = steps.CancelAsked(at=NOW, by=BY)
    following: list[Callable[[Job], Change[Job]]] = [
        assign,
        bind,
        lambda job: reschedule(job, later(5)),
        lambda job: assign(job, at=later(5)),
        lambda job: steps.ask_to_cancel(job, cancel),
        lambda job: finish(job, purge_at=later(9)),
    ]
    for step in (*following, None):
        (landed,) = await records.apply(change)
        assert landed == change.after
        assert await jobs.jobs(["j-1", "nothing"]) == {"j-1": landed}
        if step is not None:
            change = step(landed)
    story = (await records.stories(["j-1"]))["j-1"]
    assert [line.step for line in story] == [
        *("submit", "assign", "bind", "reschedule", "assign", "ask_to_cancel", "finish"),
    ]


async def test_of_many_takers_of_one_job_one_wins(records: Records, jobs: Jobs) -> None:
    seen = await submitted(records)
    takers = [assign(seen, f"w-{number}") for number in range(64)]
    outcomes = await asyncio.gather(*map(records.apply, takers), return_exceptions=True)
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 63
    ((winner,),) = [outcome for outcome in outcomes if isinstance(outcome, list)]
    assert await jobs.jobs(["j-1"]) == {"j-1": winner}
    assert winner.fence == 1


async def test_a_job_is_submitted_once(records: Records) -> None:
    first = await submitted(records)
    with pytest.raises(Conflict) as refused:
        await records.apply(submit())
    assert refused.value.found == first


@pytest.mark.parametrize("lie", [{"fence": 1}, {"worker": "another"}, {"epoch": 2}])
async def test_only_the_current_assignment_finishes_a_job_whatever_a_worker_believes(
    records: Records, jobs: Jobs, lie: dict[str, Any]
) -> None:
    first = await assigned(records)
    (queued,) = await records.apply(reschedule(first))
    (current,) = await records.apply(assign(queued))
    believed = replace(current, **lie)
    with pytest.raises(Conflict) as refused:
        await records.apply(finish(believed, later(9)))
    assert refused.value.found == current
    assert await jobs.jobs(["j-1"]) == {"j-1": current}


async def test_of_a_late_result_and_a_reschedule_at_once_one_wins(records: Records, jobs: Jobs) -> None:
    for number in range(10):
        held = await assigned(records, f"j-{number}")
        outcomes = await records.apply_each([finish(held, later(9)), reschedule(held)])
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1


@pytest.mark.waking
async def test_a_submitted_and_a_finished_job_wake_all_waiters(records: Records, signals: Signals) -> None:
    await signals.wait(0.01)
    async with asyncio.timeout(120):
        await asyncio.gather(signals.wait(LONG), submitted(records))
        job = await assigned(records, "j-2")
        await signals.wait(0.01)
        await asyncio.gather(signals.wait(LONG), records.apply(finish(job, later(9))))


# ---- queries


async def test_the_jobs_of_a_run_that_may_start_come_oldest_first_and_lost_ones_before_new_ones(
    records: Records, jobs: Jobs
) -> None:
    await submitted(records, "j-late", at=later(2))
    await submitted(records, "j-b", at=later(1), index=1)
    await submitted(records, "j-c", at=later(1), index=0)
    await submitted(records, "j-other", "run-2")
    lost = await submitted(records, "j-lost", at=later(3))
    (held,) = await records.apply(assign(lost))
    await records.apply(reschedule(held, later(60)))
    assert ids(await jobs.queued("run-1", later(59.999999), 10)) == ["j-c", "j-b", "j-late"]
    assert ids(await jobs.queued("run-1", later(60), 10)) == ["j-lost", "j-c", "j-b", "j-late"]
    assert ids(await jobs.queued("run-1", later(60), 2)) == ["j-lost", "j-c"]


async def test_jobs_that_ask_for_another_capability_hide_none_that_suits(records: Records, jobs: Jobs) -> None:
    for number in range(3):
        await submitted(records, f"j-gpu-{number}", capability="gpu")
    await submitted(records, "j-any", at=later(1))
    await submitted(records, "j-arm", at=later(2), capability="arm")
    assert ids(await jobs.queued("run-1", later(9), 1, ())) == ["j-any"]
    assert ids(await jobs.queued("run-1", later(9), 2, ("arm", "x"))) == ["j-any", "j-arm"]
    assert ids(await jobs.queued("run-1", later(9), 2)) == ["j-gpu-0", "j-gpu-1"]


async def test_jobs_that_avoid_a_worker_hide_none_that_does_not(records: Records, jobs: Jobs) -> None:
    for number in range(3):
        await records.apply(reschedule(await assigned(records, f"j-lost-{number}"), later(1)))
    await submitted(records, "j-new", at=later(2))
    assert ids(await jobs.queued("run-1", later(9), 1, without=KEY)) == ["j-new"]
    assert ids(await jobs.queued("run-1", later(9), 1, without="another")) == ["j-lost-0"]


async def test_running_and_finished_jobs_are_not_queued(records: Records, jobs: Jobs) -> None:
    await assigned(records, "j-1")
    await records.apply(finish(await assigned(records, "j-2"), later(9)))
    assert await jobs.queued("run-1", later(60), 10) == []
    assert await jobs.waiting_runs(10) == []


async def test_a_worker_holds_what_runs_on_it_up_to_an_epoch(records: Records, jobs: Jobs) -> None:
    for job_id, worker, epoch in (("j-1", KEY, 1), ("j-2", KEY, 2), ("j-3", KEY, 3), ("j-4", "another", 1)):
        await assigned(records, job_id, worker, epoch)
    await records.apply(finish(await assigned(records, "j-5"), later(9)))
    await records.apply(reschedule(await assigned(records, "j-6")))
    assert ids(await jobs.held(KEY, 2, 10)) == ["j-1", "j-2"]
    assert ids(await jobs.held(KEY, 2, 1)) == ["j-1"]
    assert await jobs.held("nobody", 9, 10) == []


async def test_a_job_that_was_not_bound_in_time_is_unverified(records: Records, jobs: Jobs) -> None:
    await assigned(records, "j-1", verify_by=later(120))
    await assigned(records, "j-2", verify_by=later(60))
    await records.apply(bind(await assigned(records, "j-3", verify_by=later(60))))
    await records.apply(finish(await assigned(records, "j-4", verify_by=later(60)), later(9)))
    assert await jobs.unverified(later(59), 10) == []
    assert ids(await jobs.unverified(later(120), 10)) == ["j-2", "j-1"]
    assert ids(await jobs.unverified(later(120), 1)) == ["j-2"]


async def test_runs_with_queued_jobs_wait_each_once_in_order(records: Records, jobs: Jobs) -> None:
    for number, run_id in enumerate(("run-b", "run-a", "run-b", "run-c")):
        await submitted(records, f"j-{number}", run_id)
    assert await jobs.waiting_runs(10) == ["run-a", "run-b", "run-c"]
    assert await jobs.waiting_runs(1, after="run-a") == ["run-b"]
    assert await jobs.waiting_runs(0) == []


async def test_no_run_waits_unseen_behind_a_long_queue_whatever_its_id(records: Records, jobs: Jobs) -> None:
    runs = ["a", "a!", 'a"', "a#z", "a$", "a-1", "aé", "b"]
    await records.apply_each([submit(f"j-{number:03}", "a") for number in range(120)])
    await records.apply_each([submit(f"j-{run}", run) for run in reversed(runs)])
    assert await jobs.waiting_runs(10) == runs
    assert [await jobs.waiting_runs(1, after=run) for run in runs] == [[run] for run in runs[1:]] + [[]]


async def test_all_jobs_of_a_run_are_listed_by_id_in_pages(records: Records, jobs: Jobs) -> None:
    for number in range(4):
        await submitted(records, f"j-{number}")
    await submitted(records, "j-x", "run-2")
    (done,) = await records.apply(assign((await jobs.jobs(["j-0"]))["j-0"]))
    await records.apply(finish(done, later(9)))
    assert ids(await jobs.of_run("run-1", 2)) == ["j-0", "j-1"]
    listed = await jobs.of_run("run-1", 10, after="j-1")
    assert [(job.id, job.state) for job in listed] == [("j-2", QUEUED), ("j-3", QUEUED)]
    assert (await jobs.of_run("run-1", 1))[0].state is FINISHED


async def test_a_reader_gets_the_jobs_of_its_runs_that_it_does_not_know(records: Records, jobs: Jobs) -> None:
    for id, run in (("j-1", "run-1"), ("j-2", "run-1"), ("j-3", "run-2"), ("j-4", "run-3")):
        await submitted(records, id, run)
    found = await jobs.changed(["run-1", "run-2"], {}, 10)
    assert (sorted(ids(found.changed)), found.gone) == (["j-1", "j-2", "j-3"], [])
    known = {job.id: job.version for job in found.changed}
    assert await jobs.changed(["run-2", "run-1"], known, 10) == Delta([], [])
    (changed,) = await records.apply(assign((await jobs.jobs(["j-1"]))["j-1"]))
    await submitted(records, "j-5", "run-2")
    found = await jobs.changed(["run-1", "run-2"], known, 10)
    assert (ids(sorted(found.changed, key=lambda job: job.id)), found.gone) == (["j-1", "j-5"], [])
    assert changed in found.changed
    found = await jobs.changed(["run-2"], known, 10)
    assert (ids(found.changed), sorted(found.gone)) == (["j-5"], ["j-1", "j-2"])
    assert sorted((await jobs.changed([], known, 10)).gone) == ["j-1", "j-2", "j-3"]


async def test_a_reader_of_many_jobs_gets_some(records: Records, jobs: Jobs) -> None:
    for number in range(5):
        await submitted(records, f"j-{number}")
    assert len((await jobs.changed(["run-1"], {}, 3)).changed) == 3


# ---- purged


@pytest.mark.purging
async def test_a_finished_job_is_purged_from_its_time_on_with_its_story_and_all_its_logs(
    records: Records, jobs: Jobs, logs: Logs
) -> None:
    (queued,) = await records.apply(reschedule(await assigned(records)))
    (again,) = await records.apply(assign(queued))
    await submitted(records, "j-2")
    for job_id, fence in (("j-1", 1), ("j-1", 2), ("j-2", 1)):
        await logs.append(job_id, fence, 0, b"printed")
    await records.apply(finish(again, later(60)))
    assert await records.purge(later(59.999999), 10) == 0
    assert await records.purge(later(60), 10) == 1
    assert (await jobs.jobs(["j-1", "j-2"])).keys() == {"j-2"}
    assert [await logs.read("j-1", fence, 0, 10) for fence in (1, 2)] == [b"", b""]
    assert await logs.read("j-2", 1, 0, 10) == b"printed"
    assert not (await records.stories(["j-1"])).get("j-1")


@pytest.mark.purging
async def test_a_purge_of_several_kinds_takes_at_most_its_limit(records: Records, workers: Workers) -> None:
    await accepted(workers)
    for number in range(3):
        await records.apply(finish(await assigned(records, f"j-{number}"), later(60)))
    assert [await records.purge(later(60), 2) for _ in range(3)] == [2, 1, 0]


async def test_the_runners_that_have_had_a_job_are_those_that_hold_one_or_held_one_until_a_time(
    records: Records, jobs: Jobs
) -> None:
    await submitted(records, "j-0")
    await assigned(records, "j-1", instance_id="i-holds")
    await records.apply(finish(await assigned(records, "j-2", instance_id="i-held"), later(9)))
    await records.apply(reschedule(await assigned(records, "j-3", instance_id="i-lost")))
    assert await jobs.runners_used("run-1", NOW, 10) == ["i-held", "i-holds"]
    assert await jobs.runners_used("run-1", later(1), 10) == ["i-holds"]
    assert await jobs.runners_used("run-1", NOW, 2) == ["i-holds"]
    assert await jobs.runners_used("run-2", NOW, 10) == []


async def test_a_postponed_job_waits_until_its_time(records: Records, jobs: Jobs) -> None:
    job = await submitted(records)
    await records.apply(steps.postpone(job, steps.JobPostponed(at=NOW, by=BY, not_before=later(30))))
    assert await jobs.queued("run-1", later(29), 10) == []
    assert ids(await jobs.queued("run-1", later(30), 10)) == ["j-1"]
