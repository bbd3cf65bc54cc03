"""Hedging: a claim that is not answered soon draws one more candidate, so that mute instances cost one wait."""

import asyncio
from itertools import combinations

import pytest

from bullpen.config import Liveness, Settings
from bullpen.model.instance import IDLE, RUNNING, InstanceFate
from bullpen.model.progress import WorkPhase
from bullpen.sim.agent import Temper
from fixtures import a_world, ids, machines, mute, now, provisioned, records, tickets, with_pool
from spread_marks import mostly_slow


def slow_runners(n: int) -> Temper:
    return Temper(registers_in=5.5)


async def test_a_claim_that_is_not_acknowledged_is_hedged_after_two_seconds() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        mute(world, [tickets(world)[0].instance_id])
        began = now()
        outcome = await provisioned(world, "run", 1)
        assert outcome.selected == 1
        assert 2.0 <= now() - began < 3.0
        assert set(ids(outcome)) < set(pool)


async def test_a_claim_of_an_instance_that_fell_silent_in_the_pool_is_hedged_at_once() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        dead = [ticket.instance_id for ticket in tickets(world)[:2]]
        mute(world, dead)
        await asyncio.sleep(20)
        began = now()
        outcome = await provisioned(world, "run", 1)
        assert now() - began < 0.5
        assert set(ids(outcome)) == set(pool) - set(dead)
        assert {d.instance_id: d.outcome for d in outcome.discarded} == dict.fromkeys(dead, InstanceFate.TERMINATED)


@pytest.mark.parametrize("skew", [-300.0, 300.0])
async def test_a_run_whose_clock_is_wrong_ends_no_instance_of_the_pool(skew: float) -> None:
    async with a_world() as world:
        pool = await with_pool(world, 4)
        outcome = await provisioned(world, "run", 2, world.ports(skew=skew))
        assert outcome.selected == 2
        assert machines(world) == pool
        assert [d.instance_id for d in outcome.discarded if d.outcome is InstanceFate.TERMINATED] == []


async def test_a_hedge_that_a_wrong_clock_drew_has_the_time_to_answer_before_it_is_ended() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        first, hedge = (world.agents[ticket.instance_id] for ticket in tickets(world))
        for agent, seconds in ((first, 0.5), (hedge, 1.5)):
            agent.pause()
            asyncio.get_running_loop().call_later(seconds, agent.resume)
        outcome = await provisioned(world, "run", 1, world.ports(skew=300.0))
        assert outcome.selected == 1
        assert machines(world) == pool


async def test_without_tracking_an_old_heartbeat_is_ignored() -> None:
    untracked = Settings(liveness=Liveness(tracking=False))
    async with a_world(settings=untracked) as world:
        await with_pool(world, 2)
        mute(world, [tickets(world)[0].instance_id])
        await asyncio.sleep(20)
        began = now()
        assert (await provisioned(world, "run", 1)).selected == 1
        assert now() - began >= 2.0


async def test_a_claim_that_is_acknowledged_and_does_not_register_is_hedged_after_three_quarters_of_its_time() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        stuck = tickets(world)[0].instance_id
        world.tempers[stuck].registers_in = 1e6
        outcome = await provisioned(world, "run", 1)
        assert outcome.selected == 1
        assert 7.5 <= outcome.timings[WorkPhase.ACQUIRE] < 8.5
        assert stuck not in ids(outcome)


@pytest.mark.parametrize("takes", [0.2, 5.5])
async def test_an_answered_claim_is_not_hedged_while_it_registers_as_healthy_ones_do(takes: float) -> None:
    async with a_world() as world:
        await with_pool(world, 4)
        for temper in world.tempers.values():
            temper.registers_in = takes
        outcome = await provisioned(world, "run", 2)
        assert outcome.discarded == ()
        assert len([one for one in records(world, IDLE) if one.is_claimable]) == 2


async def test_a_hedge_that_was_not_needed_never_runs_and_goes_back_to_the_pool() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        slow = tickets(world)[0].instance_id
        world.tempers[slow].registers_in = 7.6
        world.tempers[tickets(world)[1].instance_id].registers_in = 3.0
        outcome = await provisioned(world, "run", 1)
        assert ids(outcome) == [slow]
        assert len(records(world, RUNNING)) == 1
        assert [d.outcome for d in outcome.discarded] in ([InstanceFate.OFFERED], [InstanceFate.CLEANING])
        assert {r.name for r in world.memory.registrations.values()} == {slow}
        assert machines(world) == pool


async def test_a_mute_instance_is_ended_once_its_hedge_has_won() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        silent = tickets(world)[0].instance_id
        mute(world, [silent])
        outcome = await provisioned(world, "run", 1)
        assert [(d.instance_id, d.outcome) for d in outcome.discarded] == [(silent, InstanceFate.TERMINATED)]
        assert silent not in machines(world)


@pytest.mark.parametrize("places", mostly_slow(list(combinations(range(14), 4))[::19], quick=6))
async def test_four_mute_of_fourteen_cost_ten_runners_less_than_twelve_seconds(places: tuple[int, ...]) -> None:
    async with a_world(temper=slow_runners) as world:
        await with_pool(world, 14)
        queue = [ticket.instance_id for ticket in tickets(world)]
        mute(world, [queue[place] for place in places])
        began = now()
        outcome = await provisioned(world, "run", 10)
        assert outcome.succeeded
        assert outcome.created == 0
        assert now() - began < 12.0
