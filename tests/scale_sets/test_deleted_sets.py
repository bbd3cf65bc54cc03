"""A set that was deleted at GitHub and cannot be created again costs neither requests nor writes without end."""

import asyncio
from collections import Counter

import msgspec
import pytest

from bullpen.config import ScaleSetSettings, Settings
from bullpen.controllers import Service
from bullpen.model.instance import IDLE
from bullpen.model.scale_set import READY, RETIRED, RETIRING, ScaleSet
from bullpen.ports import Ports, ScaleSetSpec
from bullpen.sim.world import World
from fixtures import faults, records
from scale_sets.fixtures import (
    SET,
    a_set_world,
    hub_of,
    members,
    push,
    serve,
    session,
    set_of,
    settings_of,
    until_done,
)

pytestmark = pytest.mark.slow  # hours of virtual time


def stored(world: World) -> ScaleSet:
    return world.memory.tables.scale_sets[f"set:{SET}"]


def serve_with(world: World, name: str, settings: Settings) -> list[Ports]:
    """Serve by these settings; the list gets the ports of the process."""
    made: list[Ports] = []

    async def main(ports: Ports) -> None:
        made.append(ports)
        await Service(ports, settings, process=name).run(asyncio.Event())

    world.agents[name], _ = world.start(name, main)
    return made


def without_the_set(settings: Settings) -> Settings:
    other = ScaleSetSettings(events="trusted", max=5, name="bullpen-other", resource_class="small")
    return msgspec.structs.replace(
        settings, github=msgspec.structs.replace(settings.github, scale_sets={"other": other})
    )


async def requests_of(ports: Ports, seconds: float) -> Counter[str]:
    before = faults(ports).requests.copy()
    await asyncio.sleep(seconds)
    return faults(ports).requests - before


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]


async def test_a_set_whose_name_another_owner_has_taken_is_tried_less_and_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_set_world(settings_of(min=1)) as world:
        made = serve_with(world, "web-1", world.settings)
        await asyncio.sleep(60)
        hub_of(world).sets.delete(set_of(world).id)
        hub_of(world).sets.create(ScaleSetSpec(SET))
        epoch = session(world).epoch
        asked = await requests_of(made[0], 3600)
        assert session(world).epoch - epoch <= 20  # 10, 20, 40, 80, 160, and then every 300 s
        assert asked["scale_sets.open"] <= 20
        assert asked["scale_sets.find"] <= 70  # once a minute, as for every set
        assert len([one for one in errors(caplog) if "scale set was deleted at the CI" in one]) == 1
        assert len(errors(caplog)) <= 2  # the other one says that the name is taken


async def test_a_set_whose_name_becomes_free_again_is_created_and_served() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.delete(set_of(world).id)
        stranger = hub_of(world).sets.create(ScaleSetSpec(SET))
        await asyncio.sleep(3600)
        hub_of(world).sets.delete(stranger.id)
        await asyncio.sleep(120)
        assert (stored(world).state, len(set_of(world).runners)) == (READY, 1)
        assert await until_done(world, push(world, lasts=30.0)) < 40.0


async def test_a_set_that_is_deleted_twice_is_created_at_once_each_time() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        for _ in range(3):
            await asyncio.sleep(200)
            hub_of(world).sets.delete(set_of(world).id)
            await asyncio.sleep(65)  # a poll is answered within 50 s
            assert set_of(world).session is not None
        assert await until_done(world, push(world, lasts=30.0)) < 40.0


async def test_a_retiring_set_that_was_deleted_gives_its_runners_back_without_a_session() -> None:
    async with a_set_world(settings_of(min=2)) as world:
        first = serve(world)
        run = push(world, lasts=1800.0)
        await asyncio.sleep(60)
        first.kill()
        hub_of(world).sets.delete(set_of(world).id)
        made = serve_with(world, "web-2", without_the_set(world.settings))
        await asyncio.sleep(120)
        assert stored(world).state is RETIRING
        assert [one.id for one in members(world)] == [hub_of(world).instance_of(hub_of(world).runs[run].jobs[0].runner)]
        assert len(records(world, IDLE)) == 2
        epoch = session(world).epoch
        asked = await requests_of(made[0], 900)
        assert session(world).epoch == epoch
        assert asked["scale_sets.open"] == 0
        assert asked["records.apply"] < 900
        await until_done(world, run)
        assert hub_of(world).runs[run].shown().conclusion == "success"
        await asyncio.sleep(120)
        assert (stored(world).state, members(world)) == (RETIRED, [])
