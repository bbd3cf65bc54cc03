"""A webhook that one process receives reaches the process that holds the set, through the store."""

import asyncio

import pytest

from bullpen.controllers import Service
from bullpen.ports import Ports
from bullpen.scale_sets.queued_hints import COUNTS, LOOKED, SENT_AGAIN, QueuedHints
from bullpen.sim.world import World
from fixtures import Failure, a_world, faults, requests
from scale_sets.fixtures import SET, a_set_world, hub_of, push, session, set_of, settings_of, until_done

pytestmark = pytest.mark.slow  # hours of virtual time

LEASE = 15.0


async def serving(world: World, name: str) -> Service:
    made: list[Service] = []

    async def main(ports: Ports) -> None:
        made.append(Service(ports, world.settings, process=name))
        await made[0].run(asyncio.Event())

    world.agents[name], _ = world.start(name, main)
    await asyncio.sleep(30)
    return made[0]


async def two(world: World) -> tuple[Service, str]:
    """The process that does not hold the set, and a run that has completed; no runner is registered any more."""
    hub_of(world).denied.add("waiting_jobs")  # no list shows what a webhook shows
    await serving(world, "web-1")
    other = await serving(world, "web-2")
    run = push(world, lasts=30.0)
    await until_done(world, run)
    await asyncio.sleep(700)
    assert (session(world).holder, set_of(world).runners) == ("web-1", {})
    return other, run


async def test_a_rerun_that_a_webhook_shows_to_another_process_gets_a_runner() -> None:
    async with a_set_world() as world:
        other, run = await two(world)
        hub_of(world).rerun(hub_of(world).runs[run], ("job-0",))
        other.sets.note_queued([SET])
        assert await until_done(world, run) < 120.0
        assert session(world).holder == "web-1"


async def test_hints_of_other_processes_do_not_keep_the_set_of_a_dead_holder() -> None:
    async with a_set_world() as world:
        other, _ = await two(world)
        world.agents["web-1"].kill()
        for _ in range(int(2 * LEASE)):
            other.sets.note_queued([SET])
            await asyncio.sleep(1)
        assert session(world).holder == "web-2"


async def test_a_holder_that_takes_the_set_later_heeds_the_hint() -> None:
    async with a_set_world() as world:
        other, run = await two(world)
        hub_of(world).rerun(hub_of(world).runs[run], ("job-0",))
        world.agents["web-1"].kill()
        other.sets.note_queued([SET])
        await asyncio.sleep(5)
        world.agents["web-2"].kill()
        await serving(world, "web-3")
        assert await until_done(world, run) < 200.0


# ---- the note


async def test_a_note_is_received_once() -> None:
    async with a_world(settings=settings_of()) as world:
        sender, holder = QueuedHints(world.ports()), QueuedHints(world.ports())
        time = asyncio.get_running_loop().time()
        await sender.send({SET: time})
        await asyncio.sleep(3)
        assert await holder.receive(SET) == pytest.approx(time)
        await asyncio.sleep(LOOKED)
        assert await holder.receive(SET) is None
        assert world.memory.tables.scale_sets == {}


async def test_any_number_of_queued_jobs_is_one_note_and_few_writes() -> None:
    async with a_world(settings=settings_of()) as world:
        ports = world.ports()
        sender, loop = QueuedHints(ports), asyncio.get_running_loop()
        for _ in range(int(2 * SENT_AGAIN)):
            await sender.send({SET: loop.time()})
            await asyncio.sleep(1)
        assert requests(ports)["observations.observe"] == 2
        # What was passed on is not passed on again, although this process remembers it.
        noted = {SET: loop.time() - SENT_AGAIN - 1}
        await asyncio.sleep(SENT_AGAIN)
        await sender.send(noted)
        assert requests(ports)["observations.observe"] == 2


async def test_an_old_note_does_not_count() -> None:
    async with a_world(settings=settings_of()) as world:
        sender, holder = QueuedHints(world.ports()), QueuedHints(world.ports())
        await sender.send({SET: asyncio.get_running_loop().time()})
        await asyncio.sleep(COUNTS)
        assert await holder.receive(SET) is None
        await asyncio.sleep(LOOKED)
        await sender.send({SET: asyncio.get_running_loop().time()})
        await asyncio.sleep(LOOKED)
        assert await holder.receive(SET) is not None


async def test_a_note_of_a_clock_that_is_ahead_counts_from_now() -> None:
    async with a_world(settings=settings_of()) as world:
        sender, holder = QueuedHints(world.ports(skew=3600.0)), QueuedHints(world.ports())
        await sender.send({SET: asyncio.get_running_loop().time()})
        await asyncio.sleep(1)
        assert await holder.receive(SET) == asyncio.get_running_loop().time()


async def test_a_store_that_does_not_answer_stops_nothing() -> None:
    async with a_world(settings=settings_of()) as world:
        ports = world.ports()
        hints = QueuedHints(ports)
        faults(ports).fail_next("observations.observe", Failure.LOST_REQUEST)
        await hints.send({SET: asyncio.get_running_loop().time()})
        faults(ports).fail_next("observations.observe", Failure.LOST_REQUEST)
        assert await hints.receive(SET) is None
