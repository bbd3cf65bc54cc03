"""Budgets: how many requests each use case may cost."""

import pytest

from builders import NOW, buried, later
from bullpen.config import Limits, ResourceClass, Settings, Timings
from bullpen.model.instance import TERMINATED
from bullpen.ports import Sighting
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, ids, now, provisioned, records, refreshed, released, requests, with_pool

ROOMY = Settings(limits=Limits(max_instances=20_000))


def buries(world: World, count: int) -> None:
    """`count` instances that are gone, but whose records are still there, and which the engine still lists."""
    for n in range(count):
        for change in buried(f"i-old-{n:05}", purge_at=later(360_000)):
            world.memory.tables.land([change])
        world.memory.yard.sightings[f"i-old-{n:05}"] = Sighting(f"i-old-{n:05}", "p-1", NOW, alive=False)


async def test_fifty_warm_are_provisioned_with_at_most_125_requests() -> None:
    async with a_world(settings=ROOMY, temper=lambda n: Temper(registers_in=0.0)) as world:
        pool = await with_pool(world, 50)
        ports = world.ports()
        outcome = await provisioned(world, "run", 50, ports)
        assert ids(outcome) == pool
        assert requests(ports).total() <= 125, requests(ports)


async def test_fifty_warm_that_take_five_seconds_to_register_cost_at_most_135_requests() -> None:
    async with a_world(settings=ROOMY, temper=lambda n: Temper(registers_in=5.5)) as world:
        await with_pool(world, 50)
        ports = world.ports()
        assert (await provisioned(world, "run", 50, ports)).selected == 50
        assert requests(ports).total() <= 135, requests(ports)


async def test_fifty_are_released_with_at_most_115_requests() -> None:
    async with a_world(settings=ROOMY) as world:
        await provisioned(world, "run", 50)
        ports = world.ports()
        answer = await released(world, "run", ports)
        assert len(answer.offered) == 50
        assert requests(ports).total() <= 115, requests(ports)


async def test_ten_fitting_tickets_behind_two_hundred_others_cost_at_most_60_requests() -> None:
    settings = Settings(limits=Limits(max_instances=1000), timings=Timings(idle=3600.0))
    async with a_world(settings=settings) as world:
        await with_pool(world, 200, trust_domain="another")
        fitting = await with_pool(world, 10)
        ports = world.ports()
        assert ids(await provisioned(world, "run", 10, ports)) == fitting
        assert requests(ports).total() <= 60, requests(ports)


@pytest.mark.slow
async def test_a_refresh_over_a_thousand_idle_instances_with_nothing_to_do_costs_at_most_30_requests() -> None:
    settings = Settings(
        limits=Limits(max_instances=2000),
        timings=Timings(idle=36_000.0),
        classes={"small": ResourceClass(cpu=1, mem=1024)},
    )
    async with a_world(settings=settings) as world:
        await with_pool(world, 1000)
        await refreshed(world)
        ports = world.ports()
        assert await refreshed(world, ports) == []
        assert requests(ports).total() <= 30, requests(ports)


@pytest.mark.slow
async def test_eight_thousand_terminated_records_change_neither_what_is_found_nor_what_it_costs() -> None:
    costs = []
    for old in (0, 8_000):
        async with a_world() as world:
            buries(world, old)
            await refreshed(world)  # it books the time of each machine, once
            ports = world.ports()
            began = now()
            outcome = await provisioned(world, "run", 10, ports)
            answer = await released(world, "run", ports)
            assert sorted(answer.offered) == ids(outcome)
            assert await refreshed(world, ports) == []
            costs.append((requests(ports).total(), round(now() - began, 3)))
            assert len(records(world, TERMINATED)) == old
    assert costs[0] == costs[1]
