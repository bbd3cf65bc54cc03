"""What `why` says about the orders of operators, and about drained instances."""

from bullpen.explain import why
from bullpen.operate import drain, pause, resume, rotate
from bullpen.sim.world import World
from fixtures import a_world, ids, provisioned


async def said(world: World, id: str) -> str:
    return (await why(world.ports(), world.settings, id)).summary


async def test_a_pause_says_who_paused_what_since_when_and_why() -> None:
    async with a_world() as world:
        await pause(world.ports(), world.settings, "small", "broken image", operator="ada")
        found = await said(world, "pause:small")
        assert found.startswith("class small is paused by ada since 20")
        assert found.endswith("Z: broken image")
        await resume(world.ports(), world.settings, "small", operator="ada")
        assert await said(world, "pause:small") == "class small is not paused"


async def test_a_rotation_says_how_many_it_was_to_replace() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 2)
        await rotate(world.ports(), world.settings, "small", operator="ada")
        assert await said(world, "rotation:small") == "class small is rotating: 2 instances to replace"


async def test_a_drained_instance_is_called_drained() -> None:
    async with a_world() as world:
        (one,) = ids(await provisioned(world, "run", 1))
        await drain(world.ports(), world.settings, [one], operator="ada")
        assert await said(world, one) == f"{one} serves run run, and is drained: it is ended when that gives it back"
