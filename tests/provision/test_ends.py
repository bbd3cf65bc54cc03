"""How a provision ends when it is interrupted, when something unexpected happens, and what it leaves behind."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bullpen.errors import PermissionDenied, ProvisionFailed, Unavailable
from bullpen.model import provision as provisions
from bullpen.model.fleet import FleetAnswer
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED, InstanceFate
from bullpen.model.provision import Origin
from bullpen.ports import Ports
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import Rates, a_world, ids, machines, mute, now, provisioned, records, refreshed, requests, with_pool


def slow_boots(n: int) -> Temper:
    return Temper(boots_in=60.0 if n >= 2 else 1.0)


async def interrupted(world: World, count: int, after: float, ports: Ports | None = None) -> Any:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(after, stop.set)
    return await provisioned(world, "run", count, ports, stop=stop)


async def test_a_stop_before_the_commit_rolls_back_with_state_writes_only() -> None:
    async with a_world(temper=slow_boots) as world:
        await with_pool(world, 2)
        ports = world.ports()
        began = now()
        outcome = await interrupted(world, 4, after=10.0, ports=ports)
        assert outcome.interrupted
        assert not outcome.succeeded
        assert now() - began < 10.0 + world.settings.timings.settle
        assert requests(ports)["compute.terminate"] == 0
        assert records(world, RUNNING, CLAIMED, CREATED) == []


async def test_a_stop_while_signs_of_life_are_awaited_is_answered_at_once() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0 if n >= 1 else 1.0)) as world:
        pool = await with_pool(world, 1)
        began = now()
        asyncio.get_running_loop().call_later(30.0, mute, world, pool)
        outcome = await interrupted(world, 2, after=62.0)  # the new one is ready; the silent one is watched
        assert outcome.interrupted
        assert now() - began < 62.5


async def test_what_a_stop_left_is_owed_and_paid_by_the_next_process() -> None:
    async with a_world(temper=slow_boots) as world:
        pool = await with_pool(world, 2)
        outcome = await interrupted(world, 4, after=10.0)
        assert {d.outcome for d in outcome.discarded if d.origin is Origin.SELECTED} == {InstanceFate.CLEANING}
        assert {d.outcome for d in outcome.discarded if d.origin is Origin.CREATED} == {InstanceFate.TERMINATING}
        await asyncio.sleep(world.settings.timings.takeover + 1)
        await refreshed(world)
        assert machines(world) == pool
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == pool


async def test_a_stop_while_a_fleet_is_in_flight_forgets_no_machine() -> None:
    async with a_world() as world:
        ports = world.ports(rates=Rates(latency=(1.0, 1.0)))
        outcome = await interrupted(world, 3, after=8.5, ports=ports)
        assert outcome.interrupted
        await asyncio.sleep(700)
        for _ in range(3):
            await refreshed(world)
            await asyncio.sleep(61)
        assert machines(world) == []


async def test_a_stop_after_the_commit_lets_it_finish() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        stop = asyncio.Event()
        ports = world.ports()
        land = ports.records.apply

        async def apply(*changes: Any, **more: Any) -> Any:
            landed = await land(*changes, **more)
            if changes[0].step == "commit":
                stop.set()
            return landed

        ports.records.apply = apply  # type: ignore[method-assign]
        outcome = await provisioned(world, "run", 2, ports, stop=stop)
        assert outcome.succeeded
        assert len(records(world, RUNNING)) == 2


@pytest.mark.parametrize("step", ["settle_committed", "settle_aborted"])
async def test_a_closing_write_without_an_answer_is_left_to_others(step: str) -> None:
    async with a_world(temper=lambda n: Temper(boot_failure="no disk" if n >= 2 else "")) as world:
        pool = await with_pool(world, 2)
        ports = world.ports()
        land = ports.records.apply_each

        async def apply_each(changes: Sequence[Any]) -> Any:
            if any(change.step == step for change in changes):
                raise Unavailable("the store does not answer")
            return await land(changes)

        ports.records.apply_each = apply_each  # type: ignore[method-assign]
        outcome = await provisioned(world, "run", 2 if step == "settle_committed" else 3, ports)
        assert outcome.succeeded == (step == "settle_committed")
        assert len(records(world, RUNNING)) == len(ids(outcome)) == (2 if outcome.succeeded else 0)
        (owing,) = [one for one in world.memory.tables.provisions.values() if one.run_id == "run"]
        assert owing.owes is not None
        await asyncio.sleep(world.settings.timings.takeover + 1)
        await refreshed(world)
        assert world.memory.tables.provisions[owing.id].owes is None
        assert set(pool) <= set(machines(world))


async def test_a_stop_during_claims_in_flight_leaves_no_claim() -> None:
    for after in (0.05, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.95, 1.15):
        async with a_world() as world:
            pool = await with_pool(world, 3)
            outcome = await interrupted(world, 3, after, world.ports(rates=Rates(latency=(0.1, 0.1))))
            assert outcome.succeeded or not records(world, CLAIMED), f"stopped after {after}"
            await asyncio.sleep(world.settings.timings.takeover + 1)
            await refreshed(world)
            assert outcome.succeeded or [one.id for one in records(world, IDLE) if one.attested] == pool


async def test_an_unexpected_error_is_raised_as_it_is_and_everything_held_is_ended() -> None:
    class Surprise(RuntimeError):
        pass

    async with a_world() as world:
        await with_pool(world, 2)
        ports = world.ports()

        async def create_fleet(plan: object) -> FleetAnswer:
            raise Surprise("the moon is full")

        ports.compute.create_fleet = create_fleet  # type: ignore[method-assign]
        with pytest.raises(Surprise, match="the moon is full"):
            await provisioned(world, "run", 3, ports)
        assert machines(world) == []
        assert {one.state for one in records(world)} == {TERMINATED}
        assert [one.owes for one in records(world)] == [None, None]
        (record,) = [p for p in world.memory.tables.provisions.values() if p.run_id == "run"]
        assert record.state is provisions.ABORTED
        assert "the moon is full" in record.reason


async def test_a_roll_back_that_fails_ends_everything_and_raises_the_first_error() -> None:
    async with a_world(capacity=2) as world:
        await with_pool(world, 2)
        ports = world.ports()
        land = ports.records.apply_each
        broken = iter([True])

        async def apply_each(changes: Sequence[Any]) -> Any:
            if any(change.step == "roll_back" for change in changes) and next(broken, False):
                raise RuntimeError("the roll back broke")
            return await land(changes)

        ports.records.apply_each = apply_each  # type: ignore[method-assign]
        with pytest.raises(Exception, match="machines could be launched"):
            await provisioned(world, "run", 4, ports)
        assert records(world, CLAIMED, CREATED, RUNNING) == []


async def test_machines_that_may_not_be_ended_are_named_beside_what_failed_first() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=1e6)) as world:
        ports = world.ports()

        async def terminate(ids: Sequence[str]) -> list[str]:
            raise PermissionDenied("EC2 TerminateInstances: no", remedy="allow the call")

        ports.compute.terminate = terminate  # type: ignore[method-assign]
        with pytest.raises(ProvisionFailed) as caught:
            await provisioned(world, "run", 1, ports)
        (one,) = machines(world)
        assert "did not get ready" in str(caught.value)
        assert f"EC2 TerminateInstances: no; these may still run: {one}" in str(caught.value)
        assert caught.value.remedy == "allow the call"


async def test_a_stop_waits_for_a_launch_no_longer_than_it_may_take_and_refresh_ends_what_came_later() -> None:
    async with a_world() as world:
        ports = world.ports()
        launch = ports.compute.create_fleet

        async def create_fleet(plan: Any) -> FleetAnswer:
            launched = asyncio.get_running_loop().create_task(launch(plan))  # goes on after the caller has given up
            await asyncio.sleep(25)
            return await launched

        ports.compute.create_fleet = create_fleet  # type: ignore[method-assign]
        began = now()
        outcome = await interrupted(world, 2, after=1.0, ports=ports)
        assert outcome.interrupted
        assert now() - began <= 1.0 + world.settings.timings.settle + 0.5
        assert len(machines(world)) == 2
        await refreshed(world)
        await asyncio.sleep(world.settings.timings.orphan + 1)
        await refreshed(world)
        assert machines(world) == []


async def test_a_refused_fleet_is_an_outcome_and_not_an_exception() -> None:
    async with a_world(rates=Rates(refused_fleet=1.0)) as world:
        outcome = await provisioned(world, "run", 2)
        assert not outcome.succeeded
        assert "InsufficientInstanceCapacity" in outcome.reason
        assert [p.state for p in world.memory.tables.provisions.values()] == [provisions.ABORTED]


async def test_tickets_of_candidates_in_hand_survive_a_stop() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        before = sorted(world.memory.queues["small"].bodies())
        stop = asyncio.Event()
        ports = world.ports(rates=Rates(latency=(0.1, 0.1)))
        queue = world.memory.queues["small"]
        take = queue.take

        def stopping(limit: int, now: float) -> list[str]:
            stop.set()  # the tickets are out of the queue, and the answer is on its way
            return take(limit, now)

        queue.take = stopping  # type: ignore[method-assign]
        assert (await provisioned(world, "run", 2, ports, stop=stop)).interrupted
        assert requests(ports)["queue.take"] == 1
        assert [one.id for one in records(world, CLAIMED)] == []
        assert sorted(world.memory.queues["small"].bodies()) == before
        assert len(await world.ports().queue.take("small", 10)) == len(pool), "they went back without delay"


async def test_a_provision_pays_the_debts_of_dead_processes() -> None:
    async with a_world(temper=slow_boots) as world:
        pool = await with_pool(world, 2)
        await interrupted(world, 4, after=10.0)
        await asyncio.sleep(world.settings.timings.takeover + 1)
        outcome = await provisioned(world, "next", 2)
        assert ids(outcome) == pool
        assert machines(world) == pool


async def test_an_engine_that_cannot_answer_is_unavailable_and_changes_nothing() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        before = dict(world.memory.tables.instances)
        with pytest.raises(Unavailable):
            await provisioned(world, "run", 1, world.ports(rates=Rates(lost_request=1.0)))
        assert world.memory.tables.instances == before
