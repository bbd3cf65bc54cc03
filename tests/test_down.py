"""What down promises: nothing is left, even while other commands run; what could not be ended is named."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bullpen.config import Engines, Settings
from bullpen.down import TakenDown, down
from bullpen.engines.memory import LoopClock, Memory, Rates, SeededChance
from bullpen.errors import BullpenError, Outdated, PermissionDenied, Unavailable
from bullpen.model.provision import OPEN
from bullpen.model.worker import Worker
from bullpen.pool import debts
from bullpen.ports import Ports, Registration
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, machines, mute, on_github, provisioned, records, tickets, with_pool


async def taken_down(world: World, ports: Ports | None = None) -> TakenDown:
    return await down(ports or world.ports(), world.settings)


async def test_every_instance_ends_whatever_its_state_with_its_ticket_and_its_registration() -> None:
    async with a_world() as world:
        await with_pool(world, 3)
        await provisioned(world, "run", 2)
        before = machines(world)
        done = await taken_down(world)
        assert (sorted(done.ended), done.left) == (before, ())
        assert (machines(world), tickets(world), world.memory.registrations) == ([], [], {})
        assert [one.owes for one in records(world)] == [None] * 3


async def test_the_workers_of_what_ended_are_closed_although_their_agents_were_killed() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        mute(world, pool)
        ports = world.ports()
        assert len(await ports.workers.listed(10)) == 3
        await taken_down(world)
        assert await ports.workers.listed(10) == []
        assert await ports.workers.census() == {}


async def test_the_worker_of_what_did_not_end_stays() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        world.memory.yard.end = lambda machine_id: None  # type: ignore[method-assign]
        await taken_down(world)
        assert len(await world.ports().workers.listed(10)) == 1


@pytest.mark.parametrize("failure", [PermissionDenied("the table may not be written"), Unavailable("away")])
async def test_workers_that_cannot_be_closed_keep_no_runner_registered_and_no_queue(
    failure: BullpenError, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_world() as world:
        pool, ports = await with_pool(world, 2), world.ports()
        retired = list[str]()
        retire = ports.queue.retire

        async def listed(*args: object) -> list[Worker]:
            raise failure

        async def noted(resource_class: str) -> None:
            retired.append(resource_class)
            await retire(resource_class)

        ports.workers.listed = listed  # type: ignore[method-assign, assignment]
        ports.queue.retire = noted  # type: ignore[method-assign]
        assert await taken_down(world, ports) == TakenDown(tuple(pool), ())
        assert retired == ["small"]
        assert str(failure) in caplog.text


async def test_a_newer_program_that_has_taken_over_the_store_stops_it() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        ports = world.ports()

        async def listed(*args: object) -> list[Worker]:
            raise Outdated("the store is newer")

        ports.workers.listed = listed  # type: ignore[method-assign, assignment]
        with pytest.raises(Outdated):
            await taken_down(world, ports)


@pytest.mark.slow
async def test_a_provision_at_work_leaves_nothing_behind_whenever_it_is_met() -> None:
    for tenths in range(30):
        async with a_world(rates=Rates(latency=(0.05, 0.2)), temper=lambda n: Temper(boots_in=2.0)) as world:
            _, task = world.start("provision", lambda ports, world=world: provisioned(world, "run", 2, ports))  # type: ignore[misc]
            while not world.memory.tables.provisions:  # noqa: ASYNC110  a record wakes no process here
                await asyncio.sleep(0.01)
            await asyncio.sleep(tenths / 10)
            done = await taken_down(world)
            await asyncio.gather(task, return_exceptions=True)
            assert done.left == ()
            assert machines(world) == [], f"met after {tenths / 10} s"
            assert [one for one in world.memory.tables.provisions.values() if one.state is OPEN] == []


async def test_a_machine_that_takes_its_time_to_end_is_waited_for() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        ports = world.ports(rates=Rates(slow_end=1.0))
        assert await taken_down(world, ports) == TakenDown(tuple(pool), ())


async def test_what_would_not_end_is_named() -> None:
    async with a_world() as world:
        one, other = await with_pool(world, 2)
        world.memory.yard.end = lambda machine_id: None  # type: ignore[method-assign]
        assert await taken_down(world) == TakenDown((), (one, other))
        sightings = world.memory.yard.sightings
        sightings[one] = replace(sightings[one], stays="it is protected")
        assert (await taken_down(world)).said == (f"{one}: it is protected",)


async def test_a_github_that_is_away_hides_nothing_of_what_was_ended() -> None:
    async with a_world(settings=on_github()) as world:
        pool, ports = await with_pool(world, 2), world.ports()

        async def registrations() -> list[Registration]:
            raise Unavailable("GitHub is away")

        ports.ci.registrations = registrations  # type: ignore[method-assign]
        done = await taken_down(world, ports)
        assert (sorted(done.ended), done.left, str(done.trouble)) == (sorted(pool), (), "GitHub is away")
        assert await ports.queue.names() == []


async def test_on_aws_the_queues_stay_for_the_next_run() -> None:
    settings = Settings(engines=Engines(pool="aws"))
    ports = Memory().ports(LoopClock(), SeededChance(0))
    await ports.queue.ensure("small")
    await down(ports, settings)
    assert await ports.queue.names() == ["small"]


async def test_a_machine_whose_end_fails_keeps_no_other_from_ending_and_is_named_with_the_reason() -> None:
    async with a_world() as world:
        sick, *others = await with_pool(world, 4)
        ports = world.ports()
        terminate = ports.compute.terminate

        async def fail(ids: Sequence[str]) -> list[str]:
            if sick in ids:
                raise RecursionError("maximum recursion depth exceeded")
            return await terminate(ids)

        ports.compute.terminate = fail  # type: ignore[method-assign]
        done = await taken_down(world, ports)
        assert (sorted(done.ended), done.left) == (others, (sick,))
        assert done.said == (f"{sick}: RecursionError: maximum recursion depth exceeded",)


async def test_a_provision_that_cannot_be_settled_keeps_no_instance_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*args: object, **more: object) -> list[str]:
        raise OSError(28, "No space left on device")

    async with a_world(temper=lambda n: Temper(boots_in=5.0)) as world:
        process, _ = world.start("provision", lambda ports: provisioned(world, "run", 2, ports))
        await asyncio.sleep(1)
        process.kill()
        monkeypatch.setattr(debts, "settle_provision", fail)
        done = await taken_down(world)
        assert (len(done.ended), done.left, machines(world)) == (2, (), [])
