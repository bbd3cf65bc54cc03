"""What a set lacks is launched: on demand where spot lacks capacity, and in the place of idle machines that it cannot
use."""

import asyncio

import msgspec
import pytest

from bullpen.config import Settings
from bullpen.model.instance import Instance
from bullpen.model.ticket import UsageClass
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import machines, records
from scale_sets.fixtures import a_set_world, push, serve, session, settings_of, until_done

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
