"""What a set lacks is launched: on demand where spot lacks capacity, and in the place of idle machines that it cannot
use."""

import asyncio
from collections import Counter

import msgspec
import pytest

from builders import an_instance, needs, open_provision
from bullpen.config import Settings
from bullpen.model import provision as provisions
from bullpen.model import set_session as sessions
from bullpen.model.instance import Instance
from bullpen.model.provision import Place
from bullpen.model.set_session import JobCounts, WaitingJob
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.model.times import later
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.provision.caps import unusable
from bullpen.refresh import launch, warm
from bullpen.refresh.action import PlanRunner
from bullpen.refresh.lack import SetLack, set_lacks
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import machines, records, with_pool
from scale_sets.fixtures import SET, a_set_world, hub_of, push, serve, session, settings_of, until_done
from set_builders import open_session, renew, take

TWO_WAIT = JobCounts(assigned=3, running=1)
ON_DEMAND, SPOT = UsageClass.ON_DEMAND, UsageClass.SPOT


def on_spot(*, falls_back: bool = True) -> Settings:
    settings = settings_of(usage_class="spot")
    small = msgspec.structs.replace(settings.classes["small"], spot_fallback=falls_back)
    return msgspec.structs.replace(settings, classes={"small": small})


def of_class(world: World, usage_class: UsageClass) -> list[Instance]:
    return [one for one in records(world) if one.usage_class is usage_class]


@pytest.mark.parametrize("spot", [0, 2])
async def test_what_spot_has_no_capacity_for_is_launched_on_demand(spot: int) -> None:
    async with a_set_world(on_spot(), temper=lambda n: Temper(boots_in=40.0)) as world:
        world.memory.yard.spot_capacity = spot
        serve(world)
        serve(world, "web-2")
        run = push(world, jobs=5, lasts=120.0)
        assert await until_done(world, run) < 240.0
        assert len(of_class(world, SPOT)) == spot
        assert len(of_class(world, ON_DEMAND)) <= 5 - spot + 1


async def test_without_a_fallback_nothing_is_launched_on_demand_for_a_set_on_spot() -> None:
    async with a_set_world(on_spot(falls_back=False)) as world:
        world.memory.yard.spot_capacity = 0
        serve(world)
        push(world, jobs=2)
        await asyncio.sleep(120)
        assert machines(world) == []
        assert session(world).missing == 2
        world.memory.yard.spot_capacity = 1000
        await asyncio.sleep(60)
        assert len(of_class(world, SPOT)) >= 2
        assert of_class(world, ON_DEMAND) == []


def capped(cap: int, idle_target: int = 0) -> Settings:
    settings = settings_of(idle_target=idle_target)
    return msgspec.structs.replace(settings, limits=msgspec.structs.replace(settings.limits, max_instances=cap))


@pytest.mark.parametrize("idle_target", [0, 2])
async def test_a_job_of_a_set_gets_the_place_of_an_idle_machine_that_no_set_can_use(idle_target: int) -> None:
    async with a_set_world(capped(2, idle_target)) as world:
        await with_pool(world, 2, trust_domain="acme/other")
        serve(world)
        assert await until_done(world, push(world, lasts=30.0)) < 60.0


async def test_a_set_that_lacks_more_than_can_be_evicted_gets_as_many_as_there_is_room_for() -> None:
    async with a_set_world(capped(3)) as world:
        await with_pool(world, 2, trust_domain="acme/other")
        serve(world)
        push(world, jobs=5, lasts=600.0)
        await asyncio.sleep(60)
        assert len(machines(world)) == 3
        assert len([job for job in hub_of(world).runs["4711"].jobs if job.runner]) == 3


async def a_lack(
    world: World, missing: int, *waiting: WaitingJob, statistics: JobCounts = TWO_WAIT, phantom: int = 0
) -> None:
    """The holder of the set has written that the pool lacks so many machines."""
    ports = world.ports(rates=None)
    at = ports.clock.now()
    taken = take(sessions.absent(SET), at=at)
    opened = open_session(taken.after, at=at, statistics=statistics)
    noted = renew(opened.after, at=at, missing=missing, waiting=waiting, phantom=phantom)
    for change in (taken, opened, noted):
        await ports.records.apply(change)


async def warmed(world: World, ports: Ports | None = None) -> list[str]:
    """Warm the pool once; returns what was done and what was not."""
    ports, runner = ports or world.ports(rates=None), PlanRunner()
    found: list[str] = []
    async for plan in warm.plans(ports, world.settings, await every_live(ports)):
        found += [f"{one.what} {one.subject}" for one in await runner.perform(plan)]
    runner.check()
    return found


async def foreseen(world: World) -> list[str]:
    """What warming the pool would do."""
    ports = world.ports(rates=None)
    plans = warm.plans(ports, world.settings, await every_live(ports), dry_run=True)
    return [f"{one.what} {one.subject}" async for plan in plans for one in plan.actions]


async def test_no_machine_is_ended_to_fill_the_idle_target_beside_what_a_set_lacks() -> None:
    async with a_set_world(capped(4, idle_target=4)) as world:
        others = await with_pool(world, 3, trust_domain="acme/other")
        await a_lack(world, 1)
        assert await warmed(world) == ["create 1 × small", "cannot create 1 × small"]
        assert set(others) <= set(machines(world))


async def test_no_machine_is_ended_for_the_idle_target_while_what_a_set_lacks_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def under_way(*_: object) -> Counter[UsageClass]:
        return Counter({UsageClass.ON_DEMAND: 1})

    monkeypatch.setattr(launch, "under_way", under_way)
    async with a_set_world(capped(3, idle_target=4)) as world:
        others = await with_pool(world, 3, trust_domain="acme/other")
        await a_lack(world, 1)
        assert await warmed(world) == ["cannot create 1 × small"]
        assert set(others) == set(machines(world))


async def test_a_launch_whose_process_was_killed_before_its_fleet_holds_up_the_next_one_for_a_moment_only() -> None:
    async with a_set_world(settings_of()) as world:
        ports = world.ports(rates=None)
        await a_lack(world, 2)
        at = ports.clock.now()
        asked = provisions.absent(
            "p-0", "", 2, world.settings.requirements("small"), later(at, world.settings.timings.provision), 0.0
        )
        await ports.records.apply(provisions.open_(asked, provisions.Opened(at=at, by="killed", why="warm")))
        assert await warmed(world) == []
        await asyncio.sleep(launch.ABANDONED)
        assert await warmed(world) == ["create 2 × small"]
        assert world.memory.tables.provisions["p-0"].state is provisions.ABORTED


async def test_of_what_a_set_and_the_idle_target_lack_only_the_set_evicts() -> None:
    async with a_set_world(capped(3, idle_target=5)) as world:
        others = await with_pool(world, 3, trust_domain="acme/other")
        await a_lack(world, 2)
        assert await foreseen(world) == ["create 2 × small", "cannot create 2 × small"]
        assert await warmed(world) == ["create 2 × small", "cannot create 2 × small"]
        assert len(set(others) & set(machines(world))) == 1


@pytest.mark.parametrize(("since", "created"), [(30.0, True), (90.0, False)])
async def test_a_provision_that_waits_is_in_front_of_a_set_if_it_began_to_wait_before_its_oldest_job(
    since: float, created: bool
) -> None:
    """The job waits for 60 s, the provision for so long."""
    async with a_set_world(capped(2)) as world:
        await with_pool(world, 2, trust_domain="acme/other")
        await asyncio.sleep(100)
        ports = world.ports(rates=None)
        now = ports.clock.now()
        opened = open_provision("p-waits", needs=needs(resource_class="small"), deadline=later(now, 600.0))
        place = Place("limits.max-instances", later(now, -since), later(now, 60.0))
        waits = provisions.Waited(at=now, by="a test", why="", place=place, deadline=later(now, 600.0))
        for change in (opened, provisions.wait(opened.after, waits)):
            await ports.records.apply(change)
        await a_lack(world, 1, WaitingJob("job-1", later(now, -60.0)))
        assert await warmed(world) == [f"{'create' if created else 'cannot create'} 1 × small"]


async def test_a_job_that_github_has_taken_back_gives_a_set_no_precedence() -> None:
    async with a_set_world() as world:
        await asyncio.sleep(3600)
        now = world.ports().clock.now()
        back = WaitingJob("job-1", later(now, -3000.0), lapses=3, taken_back_at=later(now, -2000.0))
        await a_lack(world, 1, back, WaitingJob("job-2", later(now, -60.0)), WaitingJob("job-3", later(now, -30.0)))
        (lack,) = await set_lacks(world.ports(), world.settings, [])
        assert lack.since == later(now, -60.0)


async def test_an_idle_machine_that_another_waiting_set_can_use_is_not_ended() -> None:
    lacks = [SetLack("a", Requirements("small", ON_DEMAND, trust_domain="acme/a"), 1, 1)]
    mine, other = an_instance("i-1", trust_domain="acme/a"), an_instance("i-2", trust_domain="acme/b")
    fresh, larger = an_instance("i-3", trust_domain=""), an_instance("i-4", resource_class="large", trust_domain="")
    found = unusable([mine, other, fresh, larger], lambda one: any(lack.fits(one) for lack in lacks))
    assert [one.id for one in found] == ["i-2", "i-4"]
