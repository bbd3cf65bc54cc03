"""Debts that cannot be paid yet do not stand in the way of those that can."""

import asyncio

from bullpen import debts
from bullpen.model.instance import IDLE
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from stage import a_world, ids, provisioned, records, released


async def cut_off(world: World, run_id: str) -> None:
    """Release a run with a process that dies once everything is given back."""
    process, _ = world.start("releaser", lambda ports: released(world, run_id, ports))
    await asyncio.sleep(0.05)
    process.kill()


async def test_one_that_attested_is_offered_though_many_before_it_still_clean() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=1e6 if n < 50 else 0.1)) as world:
        await provisioned(world, "slow", 50)
        clean = await provisioned(world, "quick", 2)
        await cut_off(world, "slow")
        await asyncio.sleep(1)
        await cut_off(world, "quick")
        await asyncio.sleep(world.settings.timings.takeover + 1)
        lines = await debts.pay_due(world.ports(), world.settings, 20, by="a test")
        assert len(lines) == 2
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == ids(clean)


async def test_one_that_attested_and_then_died_is_not_offered() -> None:
    async with a_world() as world:
        (dead,) = ids(await provisioned(world, "run", 1))
        await cut_off(world, "run")
        await asyncio.sleep(1)
        world.agents[dead].pause()
        await asyncio.sleep(30)
        assert await debts.pay_due(world.ports(), world.settings, 20, by="a test") == []
        assert not any(one.attested for one in records(world, IDLE))
