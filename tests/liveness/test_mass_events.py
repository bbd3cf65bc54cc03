"""Mass events: cases 57 to 63, in virtual time with a thousand workers."""

import asyncio

import pytest

from bullpen.engines.memory import LoopClock
from bullpen.liveness.protection import protection_state
from bullpen.model.job import QUEUED
from bullpen.model.worker import INACTIVE
from liveness.fixtures import Crew
from liveness.fleet import Fleet

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 2])
async def test_case_57_a_control_plane_that_was_down_for_three_minutes_gives_up_no_worker(seed: int) -> None:
    crew = Crew()
    fleet = Fleet(crew, seed=seed)
    await fleet.lives(90, crew.liveness(receives=True))
    await fleet.lives(180, hears=False)
    await fleet.lives(120, crew.liveness(receives=True))
    assert fleet.lost == []
    assert fleet.active() == 1000


async def test_without_the_grace_such_an_outage_would_be_caught_by_the_hold() -> None:
    """A sweeper that does not receive beats itself, beside a receiver that is down."""
    crew = Crew()
    fleet = Fleet(crew)
    sweeper = crew.liveness()
    await fleet.lives(90, sweeper)
    await fleet.lives(180, sweeper, hears=False)
    assert (await protection_state(crew.ports)).held_since is not None
    await fleet.lives(120, sweeper)
    assert fleet.lost == []
    assert (await protection_state(crew.ports)).held_since is None


async def test_case_58_a_sweeper_whose_clock_jumps_ahead_gives_up_no_worker() -> None:
    crew = Crew()
    fleet = Fleet(crew)
    ports = crew.process()
    clock = ports.clock
    assert isinstance(clock, LoopClock)
    sweeper = crew.liveness(ports)
    await fleet.lives(60, sweeper)
    clock.skew = 300.0
    await fleet.lives(30, sweeper)
    clock.skew = 0.0
    await fleet.lives(60, sweeper)
    assert max(one.sweep.suspects for one in fleet.passed) > 900
    assert fleet.lost == []
    assert not any(one.sweep.held for one in fleet.passed)  # no worker was confirmed: there was nothing to hold back


async def test_case_59_a_sweeper_whose_clock_is_behind_finds_the_dead_late_but_does() -> None:
    crew = Crew()
    fleet = Fleet(crew, count=100)
    sweeper = crew.liveness(crew.process(skew=-300.0))
    await fleet.lives(30, sweeper)
    for hand in fleet.hands[:5]:
        hand.silent = True
    await fleet.lives(300, sweeper)
    assert fleet.lost == []
    await fleet.lives(120, sweeper)
    assert sorted(fleet.lost) == [hand.key for hand in fleet.hands[:5]]


async def test_case_60_when_every_worker_is_silent_none_is_given_up() -> None:
    crew = Crew()
    fleet = Fleet(crew, domains=("a", "b"))
    sweeper = crew.liveness(receives=True)
    await fleet.lives(60, sweeper)
    for hand in fleet.hands:
        hand.silent = True
    await fleet.lives(300, sweeper)
    assert fleet.lost == []
    state = await protection_state(crew.ports)
    assert state.held_since is not None
    assert state.why == "all of 1000 workers are silent"
    for hand in fleet.hands[:900]:
        hand.silent = False
    await fleet.lives(60, sweeper)
    assert (await protection_state(crew.ports)).held_since is None
    await fleet.lives(100, sweeper)
    assert sorted(fleet.lost) == [hand.key for hand in fleet.hands[900:]]


async def test_a_hold_ends_after_its_maximum_and_the_brake_takes_over() -> None:
    crew = Crew()
    fleet = Fleet(crew, count=60)
    sweeper = crew.liveness(receives=True)
    await fleet.lives(60, sweeper)
    for hand in fleet.hands:
        hand.silent = True
    await fleet.lives(980, sweeper)
    assert fleet.lost == []
    await fleet.lives(300, sweeper)
    assert 10 <= len(fleet.lost) <= 40  # 0.1 a second, once the fresh lease is out
    await fleet.lives(500, sweeper)
    assert len(fleet.lost) == 60


@pytest.mark.parametrize("sweepers", [1, 3])
async def test_case_61_sixty_percent_silent_are_braked(sweepers: int) -> None:
    crew = Crew()
    fleet = Fleet(crew)
    crowd = [crew.liveness(receives=True) for _ in range(sweepers)]
    await fleet.lives(60, *crowd)
    away = fleet.some(0.6)
    for hand in away:
        hand.silent = True
    await fleet.lives(180, *crowd)
    assert 5 <= len(fleet.lost) <= 20
    assert fleet.passed[-1].sweep.braked > 500
    (domain,) = (await protection_state(crew.ports)).domains
    assert domain.braked_at is not None
    for hand in away:
        hand.silent = False
    before = len(fleet.lost)
    await fleet.lives(90, *crowd)
    assert len(fleet.lost) - before <= 2
    assert fleet.active() == 1000


async def test_the_brake_of_one_domain_does_not_hold_up_another() -> None:
    crew = Crew()
    fleet = Fleet(crew, count=200, domains=("a", "b"))
    sweeper = crew.liveness(receives=True)
    await fleet.lives(60, sweeper)
    in_a = [hand for hand in fleet.hands if hand.domain == "a"]
    in_b = [hand for hand in fleet.hands if hand.domain == "b"]
    for hand in [*in_a[:80], *in_b[:10]]:
        hand.silent = True
    await fleet.lives(120, sweeper)
    assert {hand.key for hand in in_b[:10]} <= set(fleet.lost)
    assert len(fleet.lost) <= 10 + 10


async def test_case_62_a_third_really_dead_all_are_found_and_their_jobs_moved() -> None:
    crew = Crew()
    fleet = Fleet(crew)
    sweeper = crew.liveness(receives=True)
    await fleet.lives(40, sweeper)
    for hand in fleet.hands:
        await crew.submits(f"j-{hand.key}")
        hand.takes_up = (await crew.assigns(f"j-{hand.key}", hand.key),)
    await fleet.lives(30, sweeper)
    dead = fleet.some(1 / 3)
    for hand in dead:
        hand.silent = True
    await fleet.lives(60 + 24 + 3, sweeper)  # lease, confirm window, passes
    assert sorted(fleet.lost) == sorted(hand.key for hand in dead)
    moved = [job.id for job in crew.memory.tables.jobs.values() if job.state is QUEUED]
    assert sorted(moved) == sorted(f"j-{hand.key}" for hand in dead)
    assert {job.losses for job in crew.memory.tables.jobs.values()} == {0, 1}


async def test_machines_known_to_be_gone_are_given_up_at_once_whatever_the_brake_says() -> None:
    crew = Crew()
    fleet = Fleet(crew, count=100)
    sweeper = crew.liveness(receives=True)
    for hand in fleet.hands[:80]:
        await crew.machine(f"i-{hand.key}")
        await crew.beats(hand.key, instance_id=f"i-{hand.key}", domain="a", lease=60)
        hand.token = 1
    await fleet.lives(60, sweeper)
    for hand in fleet.hands[:80]:
        hand.silent = True
        crew.memory.yard.end(f"i-{hand.key}")
    await fleet.lives(90, sweeper)
    assert len(fleet.lost) == 80


async def test_when_all_machines_are_gone_there_is_no_hold() -> None:
    crew = Crew()
    fleet = Fleet(crew, count=12, lease=15)
    sweeper = crew.liveness(receives=True)
    for hand in fleet.hands:
        await crew.machine(f"i-{hand.key}")
        await crew.beats(hand.key, instance_id=f"i-{hand.key}", domain="a")
        hand.silent = True
        crew.memory.yard.end(f"i-{hand.key}")
    await fleet.lives(40, sweeper)
    assert len(fleet.lost) == 12
    assert not any(one.sweep.held for one in fleet.passed)


async def test_workers_of_machines_long_forgotten_do_not_brake_the_living() -> None:
    """No sweeper ran for a day: the records of those machines have been purged."""
    crew = Crew()
    for number in range(30):
        await crew.beats(f"old{number}", instance_id=f"i-old{number}", domain="a")
    await asyncio.sleep(3600)
    fleet = Fleet(crew, count=3, lease=15)
    sweeper = crew.liveness()
    await fleet.lives(20, sweeper)
    assert len(fleet.lost) == 30
    fleet.hands[0].silent = True
    await fleet.lives(27, sweeper)
    assert fleet.lost[30:] == [fleet.hands[0].key]


async def test_case_63_a_storm_of_restarts_starves_no_beats_and_costs_no_live_worker() -> None:
    crew = Crew()
    fleet = Fleet(crew)
    sweeper = crew.liveness(receives=True)
    await fleet.lives(60, sweeper)
    gone: set[str] = set()
    for minute in range(5):
        for number, hand in enumerate(fleet.some(0.2)):
            gone.add(hand.key)
            fleet.hands.remove(hand)
            fleet.hire(f"new-{minute}-{number:03}", "a")
        await fleet.lives(60, sweeper)
    await fleet.lives(60, sweeper)
    assert set(fleet.lost) <= gone
    assert fleet.refused == 0
    living = [crew.worker(hand.key) for hand in fleet.hands]
    assert all(one.deadline is not None and one.deadline > crew.ports.clock.now() for one in living)
    assert len(living) == 1000


async def test_a_few_workers_are_no_statistics_all_of_them_can_die() -> None:
    crew = Crew()
    fleet = Fleet(crew, count=5, lease=15)
    sweeper = crew.liveness(receives=True)
    await fleet.lives(30, sweeper)
    for hand in fleet.hands:
        hand.silent = True
    await fleet.lives(30, sweeper)
    assert len(fleet.lost) == 5
    await asyncio.sleep(0)
    assert {one.state for one in crew.memory.tables.workers.values()} == {INACTIVE}
