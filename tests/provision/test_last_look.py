"""The last look: nothing that is claimable, or could be at once, is passed over for a cold start."""

import asyncio
from typing import Any

from bullpen.model.instance import IDLE, RUNNING
from bullpen.ports import Ports
from bullpen.provision.pickup import Pickup
from bullpen.sim.world import World
from stage import a_world, ids, now, provisioned, records, refreshed, released, small, tickets, with_pool


def a_pickup(world: World, ports: Ports, run_id: str = "run", **needs: Any) -> Pickup:
    wanted = world.settings.requirements("small", **needs)
    return Pickup(ports, world.settings, wanted, run_id, by="a test")


async def test_the_last_look_finds_an_offer_whose_ticket_was_lost() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        world.memory.queues.clear()
        assert ids(await provisioned(world, "run", 3)) == pool


async def test_the_last_look_finishes_what_attested_and_was_never_offered() -> None:
    async with a_world() as world:
        first = await provisioned(world, "before", 2)
        process, _ = world.start("releaser", lambda ports: released(world, "before", ports))
        await asyncio.sleep(0.05)  # given back, cleaning
        process.kill()
        await asyncio.sleep(6)
        assert [one.attested for one in records(world, IDLE)] == [False, False]
        world.memory.queues.clear()
        outcome = await provisioned(world, "run", 2)
        assert ids(outcome) == ids(first)
        assert now() < 20


async def test_the_last_look_adopts_pre_warmed_instances_that_have_booted() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        await refreshed(world)
        await asyncio.sleep(6)
        outcome = await provisioned(world, "run", 2)
        assert outcome.selected == 2
        assert {one.trust_domain for one in records(world, RUNNING)} == {"default"}


async def test_what_the_last_look_offered_and_nobody_needed_gets_a_ticket() -> None:
    async with a_world(settings=small(idle_target=3)) as world:
        await refreshed(world)
        await asyncio.sleep(6)
        outcome = await provisioned(world, "run", 1)
        left = [one.id for one in records(world, IDLE)]
        assert len(left) == 2
        assert sorted(ticket.instance_id for ticket in tickets(world)) == left
        assert outcome.selected == 1


async def test_racing_runs_begin_at_different_places_of_the_index() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 16)
        world.memory.queues.clear()
        firsts = set()
        for run in range(20):
            candidate = await a_pickup(world, world.ports(), f"run-{run}").next()
            assert candidate is not None
            firsts.add(candidate.id)
        assert len(firsts) > 4
        assert firsts <= set(pool)
