"""Instances of the pool whose worker is lost are not counted or kept, but ended and replaced; no others are."""

import asyncio
from dataclasses import replace

import pytest

from bullpen import config
from bullpen.config import ResourceClass, Settings
from bullpen.controllers import Service
from bullpen.liveness import LivenessController
from bullpen.liveness.heartbeat import record_heartbeat
from bullpen.liveness.lost_instances import lost_instances
from bullpen.liveness.schema import HeartbeatRequest
from bullpen.model.activity import Activity, Listening
from bullpen.model.instance import CREATED, IDLE, RUNNING, TERMINATED
from bullpen.pool.lifecycle import expire_and_terminate
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, ids, machines, mute, now, provisioned, records, refreshed, requests, small, with_pool

LEASE = 60.0  # seconds: what a simulated agent takes


async def idle_pool(world: World, count: int) -> list[str]:
    """Instances on offer, launched ahead of any run; their ids."""
    await refreshed(world)
    await asyncio.sleep(6)
    await refreshed(world)
    found = [one.id for one in records(world) if one.is_claimable]
    assert len(found) == count
    return found


def on_offer(world: World) -> list[str]:
    return [one.id for one in records(world) if one.is_claimable]


async def test_refresh_ends_a_silent_idle_instance_and_launches_another() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        dead, living = await idle_pool(world, 2)
        mute(world, [dead])
        await asyncio.sleep(LEASE + 1)
        done = [(one.what, one.subject) for one in await refreshed(world)]
        assert done == [("sweep lease", f"{dead}/direct"), ("terminate", dead), ("create", "1 × small")]
        assert [one.id for one in records(world, TERMINATED)] == [dead]
        assert dead not in machines(world)
        await asyncio.sleep(6)
        await refreshed(world)
        assert len(on_offer(world)) == 2
        assert living in on_offer(world)


async def test_an_idle_instance_that_no_target_asks_for_is_ended_too() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        mute(world, pool[:1])
        await asyncio.sleep(LEASE + 1)
        await refreshed(world)
        assert on_offer(world) == machines(world) == pool[1:]


async def test_refresh_closes_the_silent_worker_of_an_instance_that_has_ended() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        mute(world, pool[:1])
        ports = world.ports()
        await expire_and_terminate(ports, world.settings, records(world)[:1], "a test ends it", by="test")
        assert pool[0] not in machines(world)
        assert "close worker" not in [one.what for one in await refreshed(world)]  # it has a lease
        await asyncio.sleep(LEASE + 1)
        (done,) = await refreshed(world)
        assert (done.what, done.subject) == ("close worker", f"{pool[0]}/direct")
        assert [one.id for one in await ports.workers.listed(10)] == [f"{pool[1]}/direct"]


async def test_a_dry_run_names_what_it_would_watch_and_ends_nothing() -> None:
    async with a_world(settings=small(idle_target=1)) as world:
        (dead,) = await idle_pool(world, 1)
        mute(world, [dead])
        await asyncio.sleep(LEASE + 1)
        began = now()
        (would,) = await refreshed(world, dry_run=True)
        assert (would.what, would.subject) == ("sweep lease", f"{dead}/direct")
        assert "a run could claim its instance" in would.reason
        assert now() - began < 1
        assert on_offer(world) == [dead]


async def test_an_instance_that_the_service_declared_lost_is_ended_by_refresh_at_once() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        mute(world, pool[:1])
        await asyncio.sleep(LEASE)
        sweeping = Service(world.ports(), world.settings).loops[2]
        assert sweeping.name == "sweep"
        for _ in range(120):
            assert await sweeping.run_once()
            await asyncio.sleep(1)
        assert on_offer(world) == pool, "the sweep declares workers lost; it ends no instance of the pool"
        began = now()
        await refreshed(world)
        assert on_offer(world) == pool[1:]
        assert now() - began < 1


async def test_at_a_full_cap_a_dry_run_counts_on_the_room_that_its_end_makes() -> None:
    async with a_world(settings=small(idle_target=1, max_instances=1)) as world:
        (dead,) = await idle_pool(world, 1)
        mute(world, [dead])
        await asyncio.sleep(LEASE + 1)
        sweeper = LivenessController(world.ports(), world.settings)
        for _ in range(40):
            await sweeper.run_once()
            await asyncio.sleep(1)
        foreseen = await refreshed(world, dry_run=True)
        assert [(one.what, one.subject) for one in foreseen] == [("terminate", dead), ("create", "1 × small")]
        assert await refreshed(world) == foreseen


async def test_the_service_replaces_a_silent_idle_instance_before_a_run_meets_it() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        dead, _ = await idle_pool(world, 2)
        stop = asyncio.Event()
        serving = asyncio.create_task(Service(world.ports(), world.settings).run(stop))
        await asyncio.sleep(30)
        mute(world, [dead])
        await asyncio.sleep(LEASE + 60)
        assert len(on_offer(world)) == 2
        assert dead not in on_offer(world)
        outcome = await provisioned(world, "run", 2)
        assert (outcome.selected, outcome.discarded) == (2, ())
        stop.set()
        await serving


async def test_a_silent_instance_is_not_kept_for_the_idle_target_for_ever() -> None:
    settings = small(idle_target=1)
    async with a_world(settings=settings) as world:
        (dead,) = await idle_pool(world, 1)
        mute(world, [dead])
        for _ in range(4):
            await asyncio.sleep(settings.timings.idle / 2 + 10)
            await refreshed(world)
        assert [one.id for one in records(world, TERMINATED)] == [dead]
        assert dead not in machines(world)


async def test_a_pre_warmed_machine_that_falls_silent_while_it_boots_does_not_count() -> None:
    async with a_world(
        settings=small(idle_target=1), temper=lambda n: Temper(boots_in=1e6 if n == 0 else 1.0)
    ) as world:
        await refreshed(world)
        await asyncio.sleep(6)
        (dead,) = [one.id for one in records(world, CREATED)]
        mute(world, [dead])
        await asyncio.sleep(LEASE + 1)
        await refreshed(world)
        assert [one.id for one in records(world, TERMINATED)] == [dead]
        await asyncio.sleep(6)
        await refreshed(world)
        assert len(on_offer(world)) == 1


@pytest.mark.parametrize("skew", [-10800.0, -300.0, 60.0])
async def test_a_heartbeat_that_only_looks_old_ends_nothing(skew: float) -> None:
    async with a_world(temper=lambda n: Temper(skew=skew if n == 0 else 0.0)) as world:
        pool = await with_pool(world, 2)
        await asyncio.sleep(20)
        await refreshed(world)
        assert on_offer(world) == machines(world) == pool


async def test_an_agent_that_goes_on_under_another_key_is_not_lost() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 1)
        mute(world, pool)
        await asyncio.sleep(LEASE)
        ports = world.ports()
        beat = HeartbeatRequest(key=f"{pool[0]}/new", token=0, lease=3600)
        await record_heartbeat(ports, world.settings, beat, instance_id=pool[0])
        await refreshed(world)
        assert [one.id for one in await ports.workers.lost(10)] == [f"{pool[0]}/direct"]
        assert on_offer(world) == pool


async def test_when_all_of_many_fall_silent_at_once_the_pool_is_left_alone() -> None:
    """The fault is then more likely in the control plane: the protection of the sweep protects the pool, too."""
    async with a_world() as world:
        pool = await with_pool(world, 6)
        mute(world, pool)
        await asyncio.sleep(LEASE + 1)
        await refreshed(world)
        assert machines(world) == pool


async def test_without_tracking_no_instance_is_lost_to_the_pool() -> None:
    settings = Settings(liveness=config.Liveness(tracking=False), classes={"small": ResourceClass(cpu=1, mem=1024)})
    async with a_world(settings=settings) as world:
        pool = await with_pool(world, 1)
        mute(world, pool)
        await asyncio.sleep(LEASE + 1)
        await refreshed(world)
        assert on_offer(world) == pool


async def test_two_refreshes_at_once_replace_a_lost_instance_once() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        dead, living = await idle_pool(world, 2)
        mute(world, [dead])
        await asyncio.sleep(LEASE + 1)
        await asyncio.gather(refreshed(world), refreshed(world), refreshed(world))
        await asyncio.sleep(6)
        await asyncio.gather(refreshed(world), refreshed(world))
        assert len(on_offer(world)) == len(machines(world)) == 2
        assert living in on_offer(world)


async def test_a_lost_instance_that_was_claimed_meanwhile_is_left_to_its_run() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 1)
        seen = records(world, IDLE)
        outcome = await provisioned(world, "run", 1)
        assert ids(outcome) == pool
        assert await lost_instances(world.ports(), seen) == {}
        assert [one.id for one in records(world, RUNNING)] == pool


async def test_the_check_for_lost_instances_costs_one_request_in_a_living_pool() -> None:
    async with a_world() as world:
        await with_pool(world, 50)
        ports = world.ports()
        await refreshed(world, ports)
        assert requests(ports)["workers.lost"] == 1
        assert requests(ports)["signals.read"] == 0


@pytest.mark.parametrize(
    ("last", "is_ended"),
    [
        ("", True),
        (Listening("bullpen.i-1.0a1b2c3d.7", 42, "d1").text(), True),
        (Activity("acme/widgets", "4711", 1, "4711", "bullpen.i-1.0a1b2c3d", "build").text(), False),
    ],
    ids=["nothing", "waits for a job", "job"],
)
async def test_a_lost_idle_instance_is_ended_unless_its_last_beat_names_a_job(last: str, is_ended: bool) -> None:
    async with a_world() as world:
        (dead,) = await with_pool(world, 1)
        mute(world, [dead])
        workers = world.memory.tables.workers
        workers[f"{dead}/direct"] = replace(workers[f"{dead}/direct"], activity=last)
        await asyncio.sleep(LEASE + 1)
        await refreshed(world)
        assert (dead not in machines(world)) is is_ended
