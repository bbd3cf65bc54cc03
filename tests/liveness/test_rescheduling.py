"""Rescheduling: cases 50 to 56."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bullpen.engines.memory import Failure, Rates
from bullpen.errors import Conflict
from bullpen.model.worker import ACTIVE
from liveness.fixtures import REFUSED, Crew, passes, requeued, settings


async def lost_with_jobs(crew: Crew, count: int) -> None:
    await crew.beats()
    for number in range(count):
        await crew.works(f"j{number:03}")
    await crew.loses("w")


@pytest.mark.parametrize("payers", [1, 2, 8])
async def test_case_50_each_assignment_is_requeued_once_by_any_number_of_payers(payers: int) -> None:
    crew = Crew()
    await lost_with_jobs(crew, 20)
    rates = Rates(latency=(0.0, 0.05))
    crowd = [crew.liveness(crew.process(rates=rates)).rescheduler for _ in range(payers)]
    done = await asyncio.gather(*(one.run_once() for one in crowd))
    assert sorted(job for one in done for job in one.requeued) == [f"j{n:03}" for n in range(20)]
    assert {(job.losses, job.state.value) for job in crew.memory.tables.jobs.values()} == {(1, "queued")}
    assert not crew.worker().owes_reschedule


async def test_case_51_a_job_that_finished_before_it_was_moved_is_left_alone() -> None:
    crew = Crew()
    await crew.beats()
    binding = await crew.works()
    await crew.loses("w")
    await crew.finishes(binding)
    done = await crew.liveness().rescheduler.run_once()
    assert (done.requeued, done.settled, crew.job().result) == ([], ["w"], "succeeded")


async def test_case_52_a_job_that_is_gone_is_skipped_and_the_debt_is_paid() -> None:
    crew = Crew()
    await lost_with_jobs(crew, 2)
    crew.memory.tables.remove(crew.job("j000"))
    done = await crew.liveness().rescheduler.run_once()
    assert (done.requeued, done.settled) == (["j001"], ["w"])


async def test_a_job_that_cannot_be_written_is_tried_again_later_and_holds_up_no_other() -> None:
    crew = Crew()
    await lost_with_jobs(crew, 2)
    ports = crew.process()
    land = ports.records.apply_each

    async def apply_each(changes: Sequence[Any]) -> list[Any]:
        landed = await land([change for change in changes if change.before.id != "j000"])
        stuck = [Conflict("j000: its item cannot be used") for change in changes if change.before.id == "j000"]
        return [*stuck, *landed]

    ports.records.apply_each = apply_each  # type: ignore[method-assign]
    done = await crew.liveness(ports).rescheduler.run_once()
    assert done.requeued == ["j001"]
    assert [("its item cannot be used" in alarm) for alarm in done.alarms] == [True]
    assert crew.worker().owes_reschedule


async def test_case_53_a_store_that_fails_is_tried_again_later_each_time_and_by_another_process_too() -> None:
    crew = Crew()
    await lost_with_jobs(crew, 3)
    ports = crew.process()
    liveness = crew.liveness(ports)
    ports.records._faults.fail_next("records.apply", *[Failure.THROTTLED] * 9)  # type: ignore[attr-defined]
    tried = []
    for second in range(10):
        if (await liveness.rescheduler.run_once()).alarms:
            tried.append(second)
        await asyncio.sleep(1)
    assert tried == [0, 1, 3]
    assert not crew.worker().owes_reschedule
    await crew.beats()
    await crew.works("late")
    await crew.loses("w")
    assert (await crew.liveness().rescheduler.run_once()).requeued == ["late"]  # a restarted process


async def test_case_54_a_late_result_of_a_lost_worker_is_refused_and_the_new_run_stands() -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats("other")
    old = await crew.works()
    await crew.loses("w")
    await passes(crew.liveness(), 2)
    new = await crew.assigns("j", "other")
    with pytest.raises(REFUSED):
        await crew.finishes(old, result="failed")
    assert (await crew.finishes(new, "other")).result == "succeeded"
    with pytest.raises(REFUSED):
        await crew.finishes(old, result="failed")


@pytest.mark.parametrize("first", ["result", "requeue"])
async def test_case_55_of_a_late_result_and_the_requeue_exactly_one_wins(first: str) -> None:
    crew = Crew()
    await crew.beats()
    binding = await crew.works()
    await crew.loses("w")
    rescheduler = crew.liveness().rescheduler
    if first == "result":
        await crew.finishes(binding)
        await rescheduler.run_once()
        assert crew.job().result == "succeeded"
    else:
        await rescheduler.run_once()
        with pytest.raises(REFUSED):
            await crew.finishes(binding)
        assert crew.job().state == "queued"


async def test_case_56_the_third_loss_fails_the_job_with_the_reason() -> None:
    crew = Crew()
    await crew.submits()
    for number in range(3):
        await crew.beats(f"w{number}")
        await crew.assigns("j", f"w{number}")
        await crew.loses(f"w{number}")
        await passes(crew.liveness(), 5)
    job = crew.job()
    assert (job.state, job.result, job.losses) == ("finished", "failed", 2)
    assert job.reason == "lost 3 times; the last time: its worker w2 is lost"


async def test_a_lost_job_waits_longer_each_time() -> None:
    crew = Crew()
    await crew.submits()
    waits = []
    for key in ("a", "b"):
        await crew.beats(key)
        await crew.assigns("j", key)
        await crew.loses(key)
        await crew.liveness().rescheduler.run_once()
        not_before = crew.job().not_before
        assert not_before is not None
        waits.append((not_before - crew.ports.clock.now()).total_seconds())
        await asyncio.sleep(10)
    assert waits == [1.0, 2.0]


async def test_a_job_being_cancelled_is_not_given_to_another() -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()
    await crew.cancels()
    await crew.loses("w")
    assert (await crew.liveness().rescheduler.run_once()).given_up == ["j"]
    assert crew.job().result == "cancelled"


@pytest.mark.slow
async def test_many_jobs_of_a_lost_worker_are_read_in_pages_and_not_one_by_one() -> None:
    crew = Crew()
    await crew.beats(lease=60)
    for number in range(1200):
        await crew.submits(f"j{number:04}")
        await crew.assigns(f"j{number:04}")
    await crew.loses("w")
    ports = crew.process()
    assert len(requeued(await passes(crew.liveness(ports), 1))) == 1200
    assert ports.records._faults.requests["jobs.held"] == 4  # type: ignore[attr-defined]


async def test_a_worker_that_beats_while_its_old_epoch_is_settled_is_settled_all_the_same() -> None:
    crew = Crew()
    await lost_with_jobs(crew, 1)
    await crew.beats()
    ports = crew.process(rates=Rates(latency=(0.05, 0.1)))
    beating = asyncio.create_task(_beats_on(crew))
    for _ in range(10):
        await crew.liveness(ports).rescheduler.run_once()
    beating.cancel()
    assert (crew.worker().state, crew.worker().owes_reschedule) == (ACTIVE, False)


async def _beats_on(crew: Crew) -> None:
    while True:
        await crew.beats()
        await asyncio.sleep(0.21)


async def test_with_tracking_off_no_worker_is_lost_and_no_job_is_moved() -> None:
    crew = Crew()
    await crew.beats()
    await crew.submits()
    await crew.assigns()
    crew.settings = settings(tracking=False)
    done = await passes(crew.liveness(), 200)
    assert (crew.worker().state, crew.job().state) == (ACTIVE, "running")
    assert requeued(done) == []
