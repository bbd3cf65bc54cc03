"""GitHub lists the runner of a scale set without a label, and not at all between two jobs: neither costs a member."""

import asyncio
from dataclasses import replace

from bullpen.refresh import Action
from bullpen.sim.world import World
from fixtures import refreshed
from scale_sets.fixtures import a_set_world, members, serve, set_of, settings_of

BETWEEN_JOBS = 120.0  # seconds: `timings.cleaning`


async def a_member(world: World) -> tuple[str, str]:
    """An idle member and its runner. No process serves its set any more."""
    serving = serve(world)
    await asyncio.sleep(60)
    serving.kill()
    (one,), (runner,) = members(world), set_of(world).runners
    return one.id, runner


def goes_offline(world: World, runner: str) -> None:
    listed = world.memory.registrations
    listed[runner] = replace(listed[runner], online=False)


async def looks(world: World, *after: float) -> list[Action]:
    found = []
    for seconds in after:
        await asyncio.sleep(seconds)
        found += [one for one in await refreshed(world) if one.what in ("deregister", "recall", "terminate", "spare")]
    return found


async def test_the_runner_of_a_member_that_is_offline_for_a_moment_keeps_its_registration() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        _, runner = await a_member(world)
        goes_offline(world, runner)
        assert await looks(world, 0, 61, 61) == []
        assert list(set_of(world).runners) == [runner]


async def test_a_member_that_github_does_not_list_has_the_time_of_a_cleaning_to_come_back() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        one, runner = await a_member(world)
        del world.memory.registrations[runner]
        assert await looks(world, 0, 61, BETWEEN_JOBS - 2) == []
        (action,) = await looks(world, 2)
        assert (action.what, action.subject) == ("recall", one)
