"""What the jobs of a set may cost machines that are kept warm at a full cap: not more than one each, however long there
is no capacity for them, and nothing if no job waits."""

import asyncio
from typing import Any

import msgspec
import pytest

from builders import an_instance
from bullpen.config import ResourceClass, Settings
from bullpen.model.instance import IDLE, Instance
from bullpen.model.set_session import JobCounts, WaitingJob
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.refresh import launch
from bullpen.refresh.lack import SetLack, set_lacks
from bullpen.refresh.launch import LaunchOrder, PoolNeeds
from bullpen.sim.world import World
from fixtures import machines, records, with_pool
from scale_sets.fixtures import a_set_world, push, serve, session, settings_of, until_done
from scale_sets.test_launches import a_lack, foreseen, warmed

ON_DEMAND, SPOT = UsageClass.ON_DEMAND, UsageClass.SPOT
MINUTES = 10


def full(cap: int = 2, most: int = 0, **scale_set: Any) -> Settings:
    """The idle target of another class fills the pool."""
    settings = settings_of(**scale_set)
    small = msgspec.structs.replace(settings.classes["small"], max_instances=most)
    large = ResourceClass(cpu=2, mem=2048, idle_target=cap)
    limits = msgspec.structs.replace(settings.limits, max_instances=cap)
    return msgspec.structs.replace(settings, classes={"small": small, "large": large}, limits=limits)


def same_class(cap: int = 2, most: int = 0) -> Settings:
    """The idle target of the set's own class fills the pool, or its class, on demand."""
    settings = settings_of(usage_class="spot", max=2, idle_target=2)
    small = msgspec.structs.replace(settings.classes["small"], max_instances=most)
    limits = msgspec.structs.replace(settings.limits, max_instances=cap)
    return msgspec.structs.replace(settings, classes={"small": small}, limits=limits)


def evicted(world: World) -> list[str]:
    stories = world.memory.tables.stories
    return [one.id for one in records(world) if any("evict" in line.why for line in stories[one.id])]


def idle(world: World) -> list[Instance]:
    return [one for one in records(world, IDLE) if one.is_claimable]


@pytest.mark.parametrize(
    "settings",
    [full(usage_class="spot", max=2), same_class(), same_class(10, most=2)],
    ids=["other class", "same class", "cap of the class"],
)
async def test_a_job_without_capacity_costs_one_idle_machine_and_status_names_the_capacity(settings: Settings) -> None:
    async with a_set_world(settings) as world:
        world.memory.yard.spot_capacity = 0
        serve(world)
        await asyncio.sleep(60)
        assert len(idle(world)) == 2
        run = push(world, lasts=20.0)
        await asyncio.sleep(MINUTES * 60)
        assert len(evicted(world)) == 1
        assert len(idle(world)) == 1
        (job,) = session(world).waiting
        assert "InsufficientInstanceCapacity" in job.why
        world.memory.yard.spot_capacity = 2
        await until_done(world, run, within=300.0)
        assert len(evicted(world)) == 1


async def test_the_idle_target_gets_its_machines_back_when_no_job_waits() -> None:
    async with a_set_world(full()) as world:
        serve(world)
        await asyncio.sleep(60)
        await until_done(world, push(world, lasts=20.0), within=120.0)
        await asyncio.sleep(2 * MINUTES * 60)
        assert [one.resource_class for one in idle(world)] == ["large", "large"]


async def test_the_runner_that_waits_after_a_new_session_costs_no_idle_machine() -> None:
    async with a_set_world(full()) as world:
        for name in ("web-1", "web-2"):
            serving = serve(world, name)
            await asyncio.sleep(MINUTES * 60)
            serving.kill()
            assert session(world).holder == name
        assert evicted(world) == []
        assert len(machines(world)) == 2


async def test_the_minimum_of_a_set_gets_the_place_of_an_idle_machine() -> None:
    async with a_set_world(full(min=1)) as world:
        serve(world)
        await asyncio.sleep(120)
        assert sorted(one.resource_class for one in records(world) if one.id in machines(world)) == ["large", "small"]


@pytest.mark.parametrize(
    ("counts", "phantom", "named", "minimum", "urgent"),
    [
        (JobCounts(3, 1), 0, 0, 0, 2),
        (JobCounts(3, 1), 0, 0, 1, 3),
        (JobCounts(3, 1), 1, 0, 0, 1),
        (JobCounts(3, 3), 0, 0, 0, 0),
        (JobCounts(1, 3), 0, 0, 0, 0),
        (JobCounts(0, 0), 0, 1, 0, 1),
        (JobCounts(30, 0), 0, 0, 0, 5),
    ],
)
async def test_what_jobs_or_the_minimum_need_is_urgent(
    counts: JobCounts, phantom: int, named: int, minimum: int, urgent: int
) -> None:
    async with a_set_world(settings_of(min=minimum)) as world:
        now = world.ports().clock.now()
        await a_lack(world, 5, *(WaitingJob(f"job-{n}", now) for n in range(named)), statistics=counts, phantom=phantom)
        (lack,) = await set_lacks(world.ports(), world.settings, [])
        assert (lack.missing, lack.urgent) == (5, urgent)


async def test_the_idle_target_leaves_room_for_what_sets_lack() -> None:
    async with a_set_world(full(4, usage_class="spot")) as world:
        world.memory.yard.spot_capacity = 0
        await a_lack(world, 1)
        assert await foreseen(world) == ["create 1 × small spot", "create 3 × large", "cannot create 1 × large"]
        done = ["cannot create 1 × small spot", "create 3 × large", "cannot create 1 × large"]
        assert await warmed(world) == done


async def test_the_idle_target_of_a_class_that_comes_first_leaves_the_same_room() -> None:
    settings = full(4)
    classes = dict(reversed(settings.classes.items()))
    async with a_set_world(msgspec.structs.replace(settings, classes=classes)) as world:
        await a_lack(world, 1)
        done = ["create 3 × large", "cannot create 1 × large", "create 1 × small"]
        assert await foreseen(world) == done
        assert await warmed(world) == done


async def test_no_room_is_kept_for_what_the_cap_of_its_class_does_not_admit() -> None:
    async with a_set_world(full(4, most=1, usage_class="spot")) as world:
        world.memory.yard.spot_capacity = 0
        await a_lack(world, 2)
        done = ["cannot create 2 × small spot", "create 3 × large", "cannot create 1 × large"]
        assert await warmed(world) == done


async def test_an_order_that_is_tried_again_evicts_for_the_jobs_that_are_left_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other launches take two of three machines that jobs need, and leave the idle target's."""
    settings = settings_of(idle_target=5)
    settings = msgspec.structs.replace(settings, limits=msgspec.structs.replace(settings.limits, max_instances=3))
    async with a_set_world(settings) as world:
        others = await with_pool(world, 3, trust_domain="acme/other")
        ports = world.ports(rates=None)
        await a_lack(world, 3, statistics=JobCounts(3, 0))
        tries = iter([False, True])

        async def needs_if_placed(*_: object) -> PoolNeeds | None:
            return await PoolNeeds.read(ports, world.settings) if next(tries) else None

        monkeypatch.setattr(launch, "_needs_if_placed", needs_if_placed)
        monkeypatch.setattr(launch, "_to_come", lambda launches: 2)
        await launch.launch(ports, world.settings, LaunchOrder("small", ON_DEMAND, 5, "a test", for_sets=3))
        assert len(set(others) & set(machines(world))) == 2


async def test_a_machine_of_a_newer_image_that_another_process_launched_for_a_set_is_not_ended() -> None:
    lack = SetLack("a", Requirements("small", ON_DEMAND, image_generation=1), 1, 1)
    assert lack.fits(an_instance("i-1", trust_domain="", image_generation=2))
    newer = SetLack("a", Requirements("small", ON_DEMAND, image_generation=2), 1, 1)
    assert not newer.fits(an_instance("i-1", trust_domain="", image_generation=1))
