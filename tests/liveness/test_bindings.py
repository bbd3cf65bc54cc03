"""Bindings: cases 44 to 49, and the jobs that a worker must stop."""

import asyncio
from collections.abc import Sequence

import pytest

from bullpen.errors import Conflict
from bullpen.liveness.heartbeat import record_heartbeats
from bullpen.liveness.schema import Binding, HeartbeatRequest
from bullpen.model.job import Job
from bullpen.model.worker import ACTIVE
from liveness.fixtures import Crew, passes, requeued


async def test_case_44_binding_and_letting_go_twice_or_of_what_is_unknown_changes_nothing() -> None:
    crew = Crew()
    await crew.beats()
    binding = await crew.works()
    assert (await crew.answered(bound=(binding,))).stop == ()
    assert crew.steps("j").count("bind") == 1
    await crew.finishes(binding)
    finished = crew.job()
    for _ in range(2):
        assert (await crew.answered(unbound=(binding, Binding("j-unknown", 1)))).stop == ()
    assert crew.job() == finished


async def test_case_45_bound_and_unbound_in_one_beat_it_ran_in_between_and_is_not_rescheduled() -> None:
    crew = Crew()
    await crew.beats()
    await crew.submits()
    binding = await crew.assigns()
    await crew.finishes(binding)
    answer = await crew.answered(bound=(binding,), unbound=(binding,))
    assert answer.stop == ()
    await crew.loses("w")
    assert requeued(await passes(crew.liveness(), 3)) == []
    assert crew.job().result == "succeeded"


async def test_case_46_letting_go_of_a_job_that_was_given_to_another_changes_nothing_for_that_one() -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats("other")
    old = await crew.works()
    await crew.loses("w")
    await passes(crew.liveness(), 2)
    new = await crew.assigns("j", "other")
    await crew.answered("other", bound=(new,))
    theirs = crew.job()
    await crew.answered("w", unbound=(old,))
    assert crew.job() == theirs


@pytest.mark.parametrize("named", ["bound", "running"])
async def test_case_47_a_job_of_another_worker_is_refused_and_must_be_stopped(named: str) -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats("other")
    await crew.submits()
    binding = await crew.assigns("j", "other")
    assert (await crew.answered("w", **{named: (binding,)})).stop == ("j",)
    assert not crew.job().bound


async def test_case_48_a_job_never_taken_up_goes_to_another_while_its_worker_stays_active() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.submits()
    await crew.beats()
    await crew.assigns()
    done = []
    for second in range(125):
        if second % 5 == 0:
            await crew.beats()
        done += await passes(liveness, 1)
    assert requeued(done) == ["j"]
    assert (crew.worker().state, crew.worker().epoch, crew.job().avoid) == (ACTIVE, 1, "w")


async def test_case_49_a_bound_job_has_no_verification_timer_left_to_look_at() -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()
    assert crew.job().verify_by is None
    assert await crew.ports.jobs.unverified(crew.ports.clock.now(), 10) == []


async def test_a_job_let_go_of_without_a_result_goes_to_another_after_a_while() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats()
    binding = await crew.works()
    await crew.answered(unbound=(binding,))
    await asyncio.sleep(60)
    await crew.answered(unbound=(binding,))  # does not restart the wait
    assert requeued(await passes(liveness, 1)) == []
    await asyncio.sleep(60)
    assert requeued(await passes(liveness, 1)) == ["j"]


async def test_a_result_that_arrives_after_the_job_was_let_go_of_counts() -> None:
    crew = Crew()
    await crew.beats()
    binding = await crew.works()
    await crew.answered(unbound=(binding,))
    assert (await crew.finishes(binding)).result == "succeeded"


async def test_a_cancelled_job_is_to_be_stopped_by_the_worker_that_asks_about_it() -> None:
    crew = Crew()
    await crew.beats()
    binding = await crew.works()
    assert (await crew.answered(running=(binding,))).stop == ()
    await crew.cancels()
    assert (await crew.answered(running=(binding,))).stop == ("j",)


async def test_an_unknown_job_that_a_worker_runs_is_to_be_stopped() -> None:
    crew = Crew()
    await crew.beats()
    assert (await crew.answered(running=(Binding("j-unknown", 1),))).stop == ("j-unknown",)


async def test_a_binding_that_meets_a_change_of_its_job_is_written_all_the_same() -> None:
    crew = Crew()
    await crew.beats()
    await crew.submits()
    binding = await crew.assigns()
    jobs = crew.ports.jobs
    read = jobs.jobs

    async def read_just_before_a_cancel(ids: Sequence[str]) -> dict[str, Job]:
        found = await read(ids)
        await crew.cancels()
        jobs.jobs = read  # type: ignore[method-assign]
        return found

    jobs.jobs = read_just_before_a_cancel  # type: ignore[method-assign]
    assert (await crew.answered(bound=(binding,))).stop == ("j",)
    assert crew.job().bound


async def test_jobs_of_many_workers_in_a_batch_are_read_in_one_request() -> None:
    crew = Crew()
    requests = []
    for number in range(10):
        await crew.beats(f"w{number}")
        binding = await crew.works(f"j{number}", f"w{number}")
        requests.append(HeartbeatRequest(key=f"w{number}", token=2, running=(binding,)))
    crew.requests().clear()
    await record_heartbeats(crew.ports, crew.settings, requests)
    assert crew.requests() == {"workers.beat": 1, "jobs.jobs": 1}


async def test_a_job_cannot_be_assigned_to_a_worker_whose_lease_is_out() -> None:
    crew = Crew()
    await crew.beats()
    await crew.submits()
    await asyncio.sleep(15)
    with pytest.raises(Conflict):
        await crew.assigns()
