"""Expiry: cases 14 to 24, and how long it takes to notice a worker that is gone."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import NOW, later
from bullpen.errors import Conflict, InvalidTransition
from bullpen.liveness import LivenessController
from bullpen.liveness.lease import Sweeper
from bullpen.model import worker as workers
from bullpen.model.instance import TERMINATED
from bullpen.model.worker import ACTIVE, CLEANED_UP, INACTIVE, LeaseExpired, Worker
from bullpen.sim.loop import virtual_run
from liveness.fixtures import Crew, lost, passes, requeued, settings


def a_worker(**fields: Any) -> Worker:
    beat = workers.Beat(at=NOW, by="a test", token=0, lease=15)
    return replace(workers.register(workers.absent("w"), beat).after, **fields)


def expired(at: float, deadline: float = 15) -> LeaseExpired:
    return LeaseExpired(at=later(at), by="a test", deadline=later(deadline), cleanup_at=later(at + 3600))


def test_case_14_at_exactly_the_deadline_the_lease_is_out() -> None:
    assert workers.lose_lease(a_worker(), expired(15)).after.state is INACTIVE
    assert a_worker().is_suspect(later(15))


def test_case_15_one_tick_before_the_deadline_nothing_happens() -> None:
    before = later(15) - timedelta(microseconds=1)
    assert not a_worker().is_suspect(before)
    with pytest.raises(Conflict):
        workers.lose_lease(a_worker(), LeaseExpired(**vars(expired(15)) | {"at": before}))


async def test_case_16_after_a_renewal_the_old_timer_does_nothing() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats(lease=15)
    await asyncio.sleep(14)
    await crew.beats(lease=60)
    done = await passes(liveness, 40)
    assert lost(done) == []
    assert sum(one.sweep.rearmed for one in done) == 1
    assert crew.worker().due_at == crew.worker().deadline


@pytest.mark.parametrize("fires_for", [14.0, 16.0])
def test_case_17_a_timer_of_another_time_than_the_stored_one_does_nothing(fires_for: float) -> None:
    with pytest.raises(Conflict):
        workers.lose_lease(a_worker(), expired(100, deadline=fires_for))


async def test_case_18_an_active_worker_without_a_deadline_is_left_alone_and_reported() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats()
    damaged = replace(crew.worker(), deadline=None, due_at=crew.worker().beat_at)
    crew.memory.tables.workers["w"] = damaged
    crew.memory.tables.worker_indexes.follow("w", damaged)
    done = await passes(liveness, 30)
    assert lost(done) == []
    assert done[-1].sweep.alarms == ("w is active without a deadline",)
    with pytest.raises(Conflict):
        workers.lose_lease(damaged, expired(100))


@pytest.mark.parametrize("sweepers", [1, 2, 8])
async def test_case_19_any_number_of_sweepers_make_one_transition_and_one_debt(sweepers: int) -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()
    crowd = [crew.liveness() for _ in range(sweepers)]
    done = await asyncio.gather(*(passes(one, 40) for one in crowd))
    assert [key for one in done for key in lost(one)] == ["w"]
    assert [job for one in done for job in requeued(one)] == ["j"]
    assert crew.steps("w").count("lose_lease") == 1
    assert crew.steps("j").count("reschedule") == 1


@pytest.mark.parametrize("seed", range(1, 41))
def test_case_20_a_beat_that_races_with_the_expiry_leaves_a_legal_state(seed: int) -> None:
    async def race() -> None:
        crew = Crew()
        await crew.beats()
        await crew.works()
        await passes(crew.liveness(), 1)
        sweeper = crew.liveness()
        await asyncio.sleep(15)
        await passes(sweeper, 8)  # the window is over with the next pass
        assert crew.worker().state is ACTIVE
        swept, beat = await asyncio.gather(sweeper.run_once(), crew.beats())
        if swept.sweep.lost:
            assert crew.worker().epoch == 2 if crew.worker().state is ACTIVE else crew.worker().owes_reschedule
        else:
            assert (crew.worker().state, crew.worker().epoch, crew.worker().owes_reschedule) == (ACTIVE, 1, False)
            assert "reschedule" not in crew.steps("j")
        assert beat.state in (ACTIVE, INACTIVE)

    virtual_run(race(), seed=seed)


@pytest.mark.parametrize("state", [INACTIVE, CLEANED_UP])
def test_case_21_a_worker_that_is_not_active_cannot_lose_its_lease(state: workers.State) -> None:
    with pytest.raises(InvalidTransition):
        workers.lose_lease(a_worker(state=state), expired(100))


async def test_case_22_the_expiry_sets_the_cleanup_an_hour_later_and_one_timer() -> None:
    crew = Crew()
    await crew.beats()
    await crew.loses("w")
    worker = crew.worker()
    assert worker.cleanup_at == worker.due_at == crew.ports.clock.now() + timedelta(hours=1)
    assert worker.deadline is None


async def test_case_23_a_worker_without_jobs_is_lost_and_its_machine_is_replaced_by_the_pool() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.machine("i-1")
    await crew.beats(instance_id="i-1")
    crew.memory.yard.end("i-1")
    done = await passes(liveness, 40)
    assert (lost(done), requeued(done)) == (["w"], [])
    assert crew.memory.tables.instances["i-1"].state is TERMINATED
    assert not crew.worker().owes_reschedule


async def test_case_24_with_rescheduling_off_the_worker_is_lost_and_its_jobs_stay_with_an_alarm() -> None:
    crew = Crew(settings(reschedule=False))
    liveness = crew.liveness()
    await crew.beats()
    await crew.works()
    done = await passes(liveness, 40)
    assert (crew.worker().state, crew.job().worker) == (INACTIVE, "w")
    assert "rescheduling is off" in done[-1].rescheduling.alarms[0]
    assert requeued(await passes(LivenessController(crew.process(), settings()), 2)) == ["j"]


async def test_a_dead_worker_with_our_lease_is_noticed_within_25_seconds() -> None:
    took = []
    for dies_after in (0.1, 1.0, 2.5, 4.0, 4.9):
        crew = Crew()
        liveness = crew.liveness()
        await passes(liveness, 2)
        await crew.beats(lease=15)
        await asyncio.sleep(dies_after)
        died = asyncio.get_running_loop().time()
        while not lost(await passes(liveness, 1)):
            pass
        took.append(asyncio.get_running_loop().time() - 1.0 - died)  # the pass, not the second after it
    assert max(took) <= 25
    assert sorted(took)[2] <= 21


async def test_a_suspect_that_beats_restarts_its_window() -> None:
    """To a sweeper whose clock is far ahead, every worker is a suspect all the time."""
    crew = Crew()
    liveness = crew.liveness(crew.process(skew=300.0))
    for _ in range(12):
        await crew.beats()
        assert lost(await passes(liveness, 5)) == []
    assert lost(await passes(liveness, 10)) == ["w"]


async def test_a_sweeper_that_was_away_itself_waits_a_whole_window_again() -> None:
    crew = Crew()
    sweeper = crew.liveness().sweeper
    await crew.beats(lease=15)
    await asyncio.sleep(16)
    await sweeper.run_once()
    await asyncio.sleep(600)  # stopped, with every other process of this machine
    assert (await sweeper.run_once()).lost == ()


async def test_a_pass_looks_at_a_bounded_number_of_suspects() -> None:
    crew = Crew()
    for number in range(12):
        await crew.beats(f"w{number}")
    sweeper = Sweeper(crew.process(), crew.settings, page=5)
    await asyncio.sleep(16)
    assert (await sweeper.run_once()).suspects == 5


async def test_a_longer_lease_has_a_longer_confirm_window() -> None:
    """It beats more rarely, so standing still for 7 s says nothing about it."""
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats(lease=60)
    await asyncio.sleep(60)
    assert lost(await passes(liveness, 24)) == []
    assert lost(await passes(liveness, 2)) == ["w"]
