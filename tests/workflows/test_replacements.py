"""Replacements of a label's lost runners are of the usage classes that its run accepted when it was provisioned."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bullpen.config import Settings
from bullpen.model.instance import LIVE
from bullpen.model.provision import Provision
from bullpen.model.ticket import UsageClass
from bullpen.ports import Ports
from bullpen.sim.world import World
from bullpen.workflows.reprovision import Refusal, RunnerProvider
from fixtures import a_world, ids, machines, mute, on_github, provisioned, records, small

SPOT, ON_DEMAND = UsageClass.SPOT, UsageClass.ON_DEMAND


def settings(*, spot_fallback: bool) -> Settings:
    return msgspec.structs.replace(on_github(), classes=small(spot_fallback=spot_fallback).classes)


async def one_is_lost(world: World, fallback: tuple[UsageClass, ...] | None) -> list[str]:
    """A run of three that accepts these instead of spot loses one; returns the other two."""
    outcome = await provisioned(world, "4711", 3, usage_class=SPOT, fallback=fallback)
    assert outcome.succeeded, outcome.reason
    lost, *rest = ids(outcome)
    mute(world, [lost])
    await asyncio.sleep(20)
    return rest


async def provide(world: World, count: int, ports: Ports | None = None) -> Refusal | None:
    return await RunnerProvider(ports or world.ports(), world.settings, asyncio.Event()).provide("4711", count)


@pytest.mark.parametrize("class_falls_back", [False, True])
async def test_one_lost_of_three_that_came_on_demand_gets_one_replacement(class_falls_back: bool) -> None:
    async with a_world(settings=settings(spot_fallback=class_falls_back)) as world:
        world.memory.yard.spot_capacity = 0
        rest = await one_is_lost(world, (ON_DEMAND,))
        assert await provide(world, 3) is None
        assert len(machines(world)) == 4, "the silent one may come back"
        assert set(rest) < set(machines(world))


async def test_a_run_of_spot_machines_alone_gets_no_others_where_its_class_falls_back() -> None:
    async with a_world(settings=settings(spot_fallback=True)) as world:
        await one_is_lost(world, ())
        world.memory.yard.spot_capacity = 3
        assert isinstance(await provide(world, 3), Refusal)
        assert {one.usage_class for one in records(world, *LIVE)} == {SPOT}


async def test_what_a_run_accepted_before_that_was_stored_is_what_its_class_says() -> None:
    async with a_world(settings=settings(spot_fallback=True)) as world:
        world.memory.yard.spot_capacity = 0
        await one_is_lost(world, None)
        ports = world.ports()
        told = ports.records.told_provisions

        async def stored_before(*args: Any, **options: Any) -> list[Provision]:
            return [replace(one, needs=replace(one.needs, fallback=None)) for one in await told(*args, **options)]

        ports.records.told_provisions = stored_before  # type: ignore[method-assign]
        assert await provide(world, 3, ports) is None
        assert len(machines(world)) == 4
