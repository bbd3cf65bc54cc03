"""Cleanup, resurrection and the terminal state: cases 25 to 37."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from builders import NOW, later
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import worker as workers
from bullpen.model.worker import ACTIVE, CLEANED_UP, INACTIVE, Code, Rejected, WorkerFate
from liveness.fixtures import Crew, passes, settings

HOUR = 3600


def cleanup_due(at: datetime, cleanup_at: datetime) -> workers.CleanupDue:
    return workers.CleanupDue(at=at, by="a test", cleanup_at=cleanup_at, purge_at=later(99999))


async def cleaned_up(crew: Crew) -> None:
    await crew.beats()
    await crew.loses("w")
    await asyncio.sleep(HOUR)
    await crew.liveness().run_once()
    assert crew.worker().state is CLEANED_UP


async def test_case_25_at_the_stored_time_the_worker_is_cleaned_up_and_no_timer_is_left() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats()
    await crew.loses("w")
    await asyncio.sleep(HOUR - 2)
    assert (await liveness.run_once()).sweep.cleaned == 0
    await asyncio.sleep(2)
    assert (await liveness.run_once()).sweep.cleaned == 1
    worker = crew.worker()
    assert (worker.state, worker.due_at, worker.cleanup_at, worker.deadline) == (CLEANED_UP, None, None, None)


async def test_case_26_an_active_worker_cannot_be_cleaned_up() -> None:
    crew = Crew()
    await crew.beats()
    with pytest.raises(InvalidTransition):
        workers.clean_up(crew.worker(), cleanup_due(later(9999), later(9999)))


async def test_case_27_after_a_resurrection_the_cleanup_timer_is_stale() -> None:
    crew = Crew()
    await crew.beats()
    await crew.loses("w")
    cleanup_at = crew.worker().cleanup_at
    assert cleanup_at is not None
    await crew.beats(lease=3600)
    assert crew.worker().cleanup_at is None
    with pytest.raises(InvalidTransition):
        workers.clean_up(crew.worker(), cleanup_due(cleanup_at, cleanup_at))


async def test_case_28_lost_twice_only_the_second_cleanup_timer_acts() -> None:
    crew = Crew()
    await crew.beats()
    await crew.loses("w")
    first = crew.worker().cleanup_at
    await crew.beats()
    await asyncio.sleep(600)
    await crew.loses("w")
    second = crew.worker().cleanup_at
    assert first is not None
    assert second is not None
    liveness = crew.liveness()
    await asyncio.sleep((first - crew.ports.clock.now()).total_seconds() + 10)
    assert (await liveness.run_once()).sweep.cleaned == 0
    with pytest.raises(Conflict):
        workers.clean_up(crew.worker(), cleanup_due(second, first))
    assert workers.clean_up(crew.worker(), cleanup_due(second, second)).after.state is CLEANED_UP


async def test_case_29_a_changed_delay_moves_no_stored_time() -> None:
    crew = Crew()
    await crew.beats()
    await crew.loses("w")
    crew.settings = settings(cleanup=10)
    await asyncio.sleep(60)
    assert (await crew.liveness().run_once()).sweep.cleaned == 0


async def test_case_30_one_beat_of_a_lost_worker_brings_it_back_in_a_new_epoch() -> None:
    crew = Crew()
    await crew.beats()
    await crew.loses("w")
    answer = await crew.answered()
    worker = crew.worker()
    assert (answer.resurrected, answer.epoch, answer.state) == (True, 2, ACTIVE)
    assert (worker.state, worker.epoch, worker.cleanup_at) == (ACTIVE, 2, None)
    assert worker.due_at == worker.deadline == crew.ports.clock.now() + timedelta(seconds=15)


async def test_case_31_its_old_jobs_stay_cancelled_before_they_are_moved() -> None:
    crew = Crew()
    await crew.beats()
    binding = await crew.works()
    await crew.loses("w")
    answer = await crew.answered(running=(binding,))
    assert crew.job().worker == "w"  # not moved yet
    assert answer.stop == ("j",)
    await passes(crew.liveness(), 1)
    assert (crew.job().state, crew.job().avoid, crew.worker().state) == ("queued", "w", ACTIVE)
    assert not crew.worker().owes_reschedule


async def test_case_32_bindings_of_the_old_epoch_are_refused_and_to_be_stopped() -> None:
    crew = Crew()
    await crew.beats()
    await crew.submits()
    binding = await crew.assigns()
    await crew.loses("w")
    answer = await crew.answered(bound=(binding,))
    assert answer.stop == ("j",)
    assert not crew.job().bound


async def test_a_worker_that_came_back_must_stop_old_jobs_that_it_did_not_name() -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()
    await crew.loses("w")
    assert (await crew.answered()).stop == ("j",)


async def test_case_33_fifty_resurrections_leave_one_timer_and_rising_epochs() -> None:
    crew = Crew()
    liveness = crew.liveness()
    epochs = []
    for _ in range(50):
        epochs.append((await crew.answered()).epoch)
        await crew.loses("w", liveness=liveness)
        await liveness.rescheduler.run_once()
    assert epochs == list(range(1, 51))
    indexes = crew.memory.tables.worker_indexes
    assert len([*indexes.cleanup.walk()]) == 1
    assert not [*indexes.due.walk()]
    assert not [*indexes.owing.walk()]


async def test_case_34_jobs_assigned_after_a_resurrection_have_the_new_epoch_and_a_higher_fence() -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats("other")
    old = await crew.works()
    await crew.loses("w")
    await crew.beats()
    await passes(crew.liveness(), 2)
    new = await crew.assigns("j", "other")
    assert new.fence > old.fence
    await crew.works("j2", "w")
    assert (crew.job("j2").epoch, crew.job("j2").worker) == (2, "w")


async def test_case_35_a_cleaned_up_worker_must_register_again_and_its_record_stays() -> None:
    crew = Crew()
    await cleaned_up(crew)
    stored = crew.worker()
    for wait in (0, 60, HOUR):
        await asyncio.sleep(wait)
        assert await crew.beats() == Rejected(Code.CLEANED_UP, CLEANED_UP, stored.token)
        assert await crew.beats(token=0) == Rejected(Code.CLEANED_UP, CLEANED_UP, stored.token)
    assert crew.worker() == stored


async def test_case_36_after_the_tombstone_is_purged_a_late_beat_is_refused() -> None:
    crew = Crew(settings(tombstone=2 * HOUR))
    await cleaned_up(crew)
    token = crew.worker().token
    await asyncio.sleep(2 * HOUR)
    assert (await crew.liveness().run_once()).sweep.purged == 1
    assert await crew.beats(token=token) == Rejected(Code.UNKNOWN, workers.ABSENT, 0)
    assert not crew.memory.tables.workers


async def test_after_the_tombstone_is_purged_a_first_beat_begins_in_a_later_epoch() -> None:
    """A process that slept with its first beat unanswered sends token 0, and no store remembers every key."""
    crew = Crew(settings(tombstone=2 * HOUR))
    await cleaned_up(crew)
    epoch = crew.worker().epoch
    await asyncio.sleep(2 * HOUR)
    await crew.liveness().run_once()
    answer = await crew.answered(token=0)
    assert (answer.token, answer.epoch) == (1, epoch + 1)


def test_case_37_nothing_leads_out_of_the_terminal_state() -> None:
    beat = workers.Beat(at=NOW, by="a test", token=1, lease=15)
    tombstone = replace(workers.register(workers.absent("w"), beat._replace(token=0)).after, state=CLEANED_UP)
    for token in (0, 1, 2):
        assert isinstance(workers.receive(tombstone, "w", beat._replace(token=token)), workers.Rejected)
    for step in workers.STEPS:
        if CLEANED_UP in step.sources:
            assert step.target is CLEANED_UP


async def test_a_retired_worker_does_not_come_back() -> None:
    crew = Crew()
    await crew.machine("i-1")
    await crew.beats(instance_id="i-1")
    crew.memory.yard.end("i-1")
    await crew.loses("w")
    assert (crew.worker().state, crew.worker().fate) == (INACTIVE, WorkerFate.RETIRE)
    assert await crew.beats() == Rejected(Code.RETIRED, INACTIVE, 1)


async def test_the_tombstone_of_a_worker_that_owes_its_jobs_is_kept() -> None:
    crew = Crew(settings(reschedule=False, tombstone=2 * HOUR))
    await crew.beats()
    await crew.works()
    await crew.loses("w")
    await asyncio.sleep(HOUR)
    await crew.liveness().run_once()
    await asyncio.sleep(4 * HOUR)
    assert (await crew.liveness().run_once()).sweep.purged == 0
    crew.settings = settings()
    assert (await crew.liveness().run_once()).rescheduling.requeued == ["j"]
