"""A runner that got a job of its run before provision could part with it is kept, or left to its job; never ended."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bullpen.errors import ConfigError, InsufficientCapacity
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.model.instance import CLAIMED, RUNNING, TERMINATED, Instance
from bullpen.model.transition import Change
from bullpen.ports import Ports
from bullpen.provision import Outcome
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import (
    a_world,
    begin_job,
    end_job,
    ids,
    machines,
    mute,
    now,
    on_github,
    provisioned,
    records,
    refreshed,
    released,
    requests,
    with_pool,
)

SLOW = 8.0  # seconds of a registration: it is hedged after 7.5, and the hedge wins


async def hedged(world: World, ports: Ports | None = None) -> tuple[str, str, Outcome]:
    """A place that is filled by a hedge while the first claim registers as well: loser, winner and the outcome."""
    pool = await with_pool(world, 2)
    for id in pool:
        world.tempers[id].registers_in = SLOW
    task = asyncio.create_task(provisioned(world, "4711", 1, ports))
    await asyncio.sleep(1)
    (loser,) = [one.id for one in records(world, CLAIMED)]
    (winner,) = [id for id in pool if id != loser]
    world.tempers[winner].registers_in = 0.4
    await asyncio.sleep(6)
    begin_job(world, loser)  # it has registered at GitHub; that its agent says so is still to come
    return loser, winner, await task


async def test_a_loser_that_got_a_job_is_kept_beside_those_asked_for() -> None:
    async with a_world(settings=on_github()) as world:
        loser, winner, outcome = await hedged(world)
        assert ids(outcome) == [winner]
        assert [member.instance.id for member in outcome.kept] == [loser]
        assert [one.state for one in records(world)] == [RUNNING, RUNNING]
        (decided,) = [one for one in world.memory.tables.provisions.values() if one.run_id == "4711"]
        assert decided.members == (winner, loser)
        assert decided.owes is None
        assert outcome.discarded == ()


async def test_a_kept_instance_goes_back_with_the_run() -> None:
    async with a_world(settings=on_github()) as world:
        loser, winner, _ = await hedged(world)
        end_job(world, loser)
        await asyncio.sleep(1)
        assert sorted((await released(world, "4711")).offered) == sorted([loser, winner])


async def test_with_the_embedded_ci_a_loser_is_given_back() -> None:
    settings = on_github()
    async with a_world(settings=settings) as world:
        plain = type(settings)(classes=settings.classes)
        world.settings = plain
        loser, winner, outcome = await hedged(world)
        assert ids(outcome) == [winner]
        assert outcome.kept == ()
        assert [one.instance_id for one in outcome.discarded] == [loser]


def begins_with(world: World, ports: Ports, step: str) -> None:
    """A job begins on every instance just as this step of it is written: after the check for busy instances."""
    apply_each = ports.records.apply_each

    async def raced(changes: Sequence[Change[Any]]) -> list[Any]:
        for change in changes:
            if change.step == step and isinstance(change.before, Instance):
                begin_job(world, change.before.id)
        return await apply_each(changes)

    ports.records.apply_each = raced  # type: ignore[method-assign]


async def test_a_loser_that_gets_a_job_as_it_is_given_back_is_reported_and_not_ended() -> None:
    async with a_world(settings=on_github()) as world:
        pool = await with_pool(world, 2)
        for id in pool:
            world.tempers[id].registers_in = SLOW
        ports = world.ports()
        begins_with(world, ports, "roll_back")
        task = asyncio.create_task(provisioned(world, "4711", 1, ports))
        await asyncio.sleep(1)
        (loser,) = [one.id for one in records(world, CLAIMED)]
        (winner,) = [id for id in pool if id != loser]
        world.tempers[winner].registers_in = 0.2
        outcome = await task
        assert ids(outcome) == [winner]
        assert [(one.instance_id, one.outcome.value) for one in outcome.discarded] == [(loser, "busy")]
        await asyncio.sleep(600)
        assert machines(world) == sorted(pool)
        end_job(world, loser)
        await asyncio.sleep(10)
        await refreshed(world)
        assert world.memory.tables.instances[loser].is_claimable


async def aborted_with_jobs(world: World) -> tuple[str, Outcome]:
    """A provision that falls short while a job runs on the one that it has claimed."""
    (one,) = await with_pool(world, 1)
    ports = world.ports()

    async def short(plan: FleetPlan) -> FleetAnswer:
        begin_job(world, one)
        await asyncio.sleep(0.5)
        raise InsufficientCapacity("there is none")

    ports.compute.create_fleet = short  # type: ignore[method-assign]
    return one, await provisioned(world, "4711", 2, ports)


async def test_a_roll_back_leaves_busy_instances_and_still_owes_them() -> None:
    async with a_world(settings=on_github()) as world:
        one, outcome = await aborted_with_jobs(world)
        assert not outcome.succeeded
        assert [(gone.instance_id, gone.outcome.value) for gone in outcome.discarded] == [(one, "busy")]
        assert world.memory.tables.instances[one].state is CLAIMED
        (aborted,) = [p for p in world.memory.tables.provisions.values() if p.run_id == "4711"]
        assert aborted.owes is not None


async def test_a_job_ends_undisturbed_although_no_process_checks() -> None:
    async with a_world(settings=on_github()) as world:
        one, _ = await aborted_with_jobs(world)
        await asyncio.sleep(1500)  # long past the deadline of the provision, which was the threshold of the claim
        assert machines(world) == [one]
        end_job(world, one)
        await asyncio.sleep(6)
        await refreshed(world)
        await asyncio.sleep(10)
        await refreshed(world)
        assert world.memory.tables.instances[one].is_claimable
        assert [p for p in world.memory.tables.provisions.values() if p.owes is not None] == []


async def test_an_unexpected_error_ends_everything_but_busy_instances() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(registers_in=0.2)) as world:
        first, second = await with_pool(world, 2)
        ports = world.ports()

        async def broken(plan: FleetPlan) -> FleetAnswer:
            begin_job(world, first)
            await asyncio.sleep(1)
            raise RuntimeError("a bug")

        ports.compute.create_fleet = broken  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="a bug"):
            await provisioned(world, "4711", 3, ports)
        assert world.memory.tables.instances[first].state is CLAIMED
        assert world.memory.tables.instances[second].state is TERMINATED
        end_job(world, first)
        for _ in range(3):
            await asyncio.sleep(20)
            await refreshed(world)
        assert world.memory.tables.instances[first].is_claimable


async def test_a_stopped_provision_does_not_wait_to_learn_which_agents_are_dead() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(boots_in=1.0 if n == 0 else 60.0)) as world:
        (one,) = await with_pool(world, 1)
        stop = asyncio.Event()
        task = asyncio.create_task(provisioned(world, "4711", 2, world.ports(), stop))
        await asyncio.sleep(2)
        begin_job(world, one)
        await asyncio.sleep(1)
        mute(world, [one])
        await asyncio.sleep(20)
        stop.set()
        began = now()
        outcome = await task
        assert now() - began < 1
        assert (one, "busy") in [(gone.instance_id, gone.outcome.value) for gone in outcome.discarded]
        for _ in range(8):
            await asyncio.sleep(20)
            await refreshed(world)
        assert world.memory.tables.instances[one].state is TERMINATED  # the process that paid the debt could wait


async def test_a_runner_that_was_released_and_only_finishes_its_job_does_not_count_for_the_next_attempt() -> None:
    async with a_world(settings=on_github()) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        begin_job(world, one)
        await released(world, "4711")
        outcome = await provisioned(world, "4711", 1)
        assert one not in ids(outcome)
        end_job(world, one)
        for _ in range(2):
            await asyncio.sleep(20)
            await refreshed(world)
        assert world.memory.tables.instances[one].is_claimable
        assert [found.id for found in records(world, RUNNING)] == ids(outcome)


async def test_a_label_that_serves_another_repository_is_refused_before_any_work() -> None:
    async with a_world(settings=on_github(scope="acme")) as world:
        (one,) = ids(await provisioned(world, "4711", 1, repository="acme/widgets"))
        ports = world.ports()
        with pytest.raises(ConfigError, match="label 4711 is taken by acme/widgets"):
            await provisioned(world, "4711", 2, ports, repository="acme/gadgets")
        assert requests(ports)["records.apply"] == 0
        assert ids(await provisioned(world, "4711", 1, repository="ACME/Widgets")) == [one]
        await released(world, "4711")
        assert (await provisioned(world, "4711", 1, repository="acme/gadgets")).succeeded


async def test_without_a_surplus_instance_provision_does_not_read_which_ones_are_busy() -> None:
    async with a_world(settings=on_github()) as world:
        await with_pool(world, 5)
        ports = world.ports()
        await provisioned(world, "4711", 5, ports)
        asked = requests(ports)
    async with a_world() as world:
        await with_pool(world, 5)
        ports = world.ports()
        await provisioned(world, "4711", 5, ports)
        assert asked == requests(ports)
