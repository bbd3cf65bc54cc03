"""The last look: a machine is launched only if no instance is claimable, or could be at once."""

import asyncio
from typing import Any

import pytest

from bullpen.model.instance import IDLE, RUNNING, TERMINATED
from bullpen.ports import Ports
from bullpen.provision import pickup
from bullpen.provision.pickup import TicketPickup
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, ids, mute, now, provisioned, records, refreshed, released, small, tickets, with_pool


def a_pickup(world: World, ports: Ports, run_id: str = "run", **needs: Any) -> TicketPickup:
    wanted = world.settings.requirements("small", **needs)
    return TicketPickup(ports, world.settings, wanted, run_id, by="a test")


async def test_the_last_look_finds_an_offer_whose_ticket_was_lost() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        world.memory.queues.clear()
        assert ids(await provisioned(world, "run", 3)) == pool


async def test_the_last_look_offers_an_instance_that_attested_and_was_never_offered() -> None:
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


async def test_the_last_look_finds_an_attested_instance_behind_many_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pickup, "PENDING_PAGE", 5)
    async with a_world(temper=lambda n: Temper(cleans_in=1e6 if n < 40 else 0.1)) as world:
        await provisioned(world, "others", 40, trust_domain="another")
        first = await provisioned(world, "before", 5)
        process, _ = world.start("releaser", lambda ports: released(world, "others", ports))
        other, _ = world.start("releaser", lambda ports: released(world, "before", ports))
        await asyncio.sleep(0.05)  # given back, cleaning
        process.kill()
        other.kill()
        await asyncio.sleep(1)
        assert sum(one.id < ids(first)[-1] for one in records(world, IDLE)) > 15  # three pages, and what is wanted + 10
        assert ids(await provisioned(world, "run", 5)) == ids(first)


async def test_a_pre_warmed_instance_that_booted_and_died_is_not_adopted_but_ended_at_its_threshold() -> None:
    async with a_world(settings=small(idle_target=1)) as world:
        await refreshed(world)
        await asyncio.sleep(6)
        (dead,) = [one.id for one in records(world)]
        mute(world, [dead])
        await asyncio.sleep(20)
        outcome = await provisioned(world, "run", 1)
        assert (outcome.selected, outcome.created, outcome.discarded) == (0, 1, ())
        await refreshed(world)
        assert [one.id for one in records(world, IDLE)] == []
        await asyncio.sleep(700)
        await refreshed(world)
        assert dead in [one.id for one in records(world, TERMINATED)]


@pytest.mark.parametrize("skew", [-300.0, 300.0])
async def test_a_pre_warmed_instance_whose_clock_is_wrong_is_adopted_once_it_moves(skew: float) -> None:
    async with a_world(settings=small(idle_target=1), temper=lambda n: Temper(skew=skew)) as world:
        await refreshed(world)
        await asyncio.sleep(6)
        await refreshed(world)
        assert [one.is_claimable for one in records(world)] == [True]


async def test_the_last_look_adopts_pre_warmed_instances_that_have_booted() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        await refreshed(world)
        await asyncio.sleep(6)
        outcome = await provisioned(world, "run", 2)
        assert outcome.selected == 2
        assert {one.trust_domain for one in records(world, RUNNING)} == {"default"}


async def test_an_instance_that_the_last_look_offered_and_no_worker_needed_gets_a_ticket() -> None:
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
