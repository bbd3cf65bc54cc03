"""The time of machines that serve a scale set belongs to the set, and adds up."""

import asyncio

import pytest

from bullpen.engines.memory import Rates
from bullpen.history.bookkeeper import book_ended
from bullpen.model import instance, set_member
from bullpen.model.usage import Owner
from bullpen.operate import drain
from bullpen.pool import lifecycle
from bullpen.pool.live_instances import every_live
from bullpen.sim.agent import Temper
from fixtures import with_pool
from history.machine_time import TimeWitness, booked
from scale_sets.fixtures import SET, a_set_world, members, push, serve, settings_of, until_done


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
async def test_the_time_of_members_belongs_to_their_set_and_adds_up(processes: int) -> None:
    async with a_set_world(settings_of(min=1), temper=lambda n: Temper(boots_in=20.0)) as world:
        witness, stop = TimeWitness(world), asyncio.Event()
        await with_pool(world, 2, trust_domain="acme/widgets")
        served = [serve(world, f"web-{n}", stop=stop) for n in range(processes)]
        await until_done(world, push(world, jobs=4, lasts=300.0))
        ports = world.ports(rates=Rates())
        await drain(ports, world.settings, [members(world)[0].id], operator="ada")
        await asyncio.sleep(4000)
        await until_done(world, push(world, jobs=2, lasts=30.0))
        stop.set()
        for process in served:
            await process.ended()
        while live := await every_live(ports):
            await lifecycle.expire_and_terminate(ports, world.settings, live, "the test ends", by="a test")
            await asyncio.sleep(60)
        await book_ended(ports)
        found = booked(world.memory.ledger.usage)
        assert found == witness.owned(world.clock.now())
        assert sum(found[key] for key in found if key[1] == (Owner.RUN, f"set:{SET}")) > 4 * 300e6
        steps = {line.step for story in world.memory.tables.stories.values() for line in story}
        assert steps >= {set_member.engage.step, instance.drain.step}
