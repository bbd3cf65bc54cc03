"""GitHub drops the registrations of idle runners now and then: each is counted, and nothing else is."""

import asyncio

from bullpen import inventory
from bullpen.cli.status_text import status_text
from bullpen.engines.memory.set_messages import NO_TROUBLE, SetTroubles
from bullpen.schema.status import pool_status_of
from bullpen.sim.world import World
from scale_sets.fixtures import a_set_world, hub_of, push, serve, session, settings_of, until_done


def watch_drops(world: World) -> list[str]:
    """The runners whose registration GitHub drops from now on."""
    runners, dropped = hub_of(world).set_runners, list[str]()
    on_drop = runners.on_drop

    def note(*args: str) -> None:
        dropped.append(args[-1])
        on_drop(*args)

    runners.on_drop = note
    return dropped


async def test_registrations_of_idle_runners_that_github_drops_are_counted_and_shown() -> None:
    async with a_set_world(settings_of(min=1, max=1)) as world:
        dropped = watch_drops(world)
        hub_of(world).sets.troubles = SetTroubles(idle_end=1.0)
        serve(world)
        await asyncio.sleep(1800)
        hub_of(world).sets.troubles = NO_TROUBLE
        await asyncio.sleep(600)
        assert len(dropped) > 5
        assert session(world).dropped == len(dropped)
        found = pool_status_of(await inventory.status(world.ports(), world.settings))
        assert found.scale_sets[0].dropped == len(dropped)
        assert f"1, {len(dropped)} dropped" in status_text(found, world.clock.now())


async def test_a_runner_that_had_a_job_is_not_counted_however_short_the_job() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        for lasts in (0.1, 0.5, 3.0, 30.0):
            await until_done(world, push(world, lasts=lasts))
            await asyncio.sleep(30)
        assert session(world).dropped == 0
