"""An instance that serves a scale set has no provision: what works for runs leaves it alone, or treats it as any."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builders import later, release
from bullpen.audit import audit
from bullpen.config import Settings, Timings
from bullpen.model.activity import Activity
from bullpen.model.instance import IDLE, TERMINATED, Instance
from bullpen.model.scale_set import ScaleSet, must_be_ready, set_run_id
from bullpen.model.times import later as after
from bullpen.pool import busy, debts
from bullpen.ports import Registration
from bullpen.sim import invariants
from bullpen.sim.world import World
from bullpen.workflows import holdings
from fixtures import a_world, ids, machines, mute, on_github, provisioned, refreshed, released, small, steps, with_pool
from set_builders import NAME, claim_for, engage, gone, mark_missing, ready, retire, rules

RUNTIME = 21600.0
RULES = rules(resource_class="small", trust_domain="default", max_runtime=RUNTIME)
RUN_ID = set_run_id(NAME)


def record(world: World, id: str) -> Instance:
    return world.memory.tables.instances[id]


async def claimed(world: World, **changed: Any) -> Instance:
    """An instance of the pool that a process has claimed for a set."""
    (id,) = await with_pool(world, 1)
    now = world.clock.now()
    for change in ready(rules=RULES):
        await world.ports().records.apply(change)
    scale_set = (await world.ports().records.scale_sets())[NAME]
    fields = {"at": now, "until": after(now, 660), **changed}
    (landed,) = await world.ports().records.apply(claim_for(record(world, id), scale_set, **fields))
    assert isinstance(landed, Instance)
    return landed


async def member(world: World) -> Instance:
    """An instance that serves a set, and is registered."""
    taken = await claimed(world)
    await asyncio.sleep(10)
    scale_set = (await world.ports().records.scale_sets())[NAME]
    now = world.clock.now()
    change = engage(taken, scale_set, at=now, until=after(now, RUNTIME + 900))
    (landed,) = await world.ports().records.apply(change, checks=[must_be_ready(NAME)])
    assert isinstance(landed, Instance)
    return landed


@asynccontextmanager
async def a_pool(settings: Settings | None = None) -> AsyncIterator[World]:
    async with a_world(settings=settings or on_github()) as world:
        yield world


def work_for_the_set(world: World, id: str) -> None:
    world.tempers[id].work(Activity("octo/repo", "99", 1, RUN_ID, f"bullpen.{id}.0.1", "build"))


# ---- refresh and debts


async def test_a_member_runs_on_through_every_refresh_before_its_threshold() -> None:
    async with a_pool() as world:
        one = await member(world)
        world.memory.registrations[one.id] = Registration(one.id, "", busy=False, online=True)
        for _ in range(5):
            await refreshed(world)
            await asyncio.sleep(600)
        assert record(world, one.id) == one


async def test_a_member_past_its_threshold_is_ended() -> None:
    async with a_pool(small()) as world:
        one = await member(world)
        await asyncio.sleep(RUNTIME + 900 + 1)
        await refreshed(world)
        assert record(world, one.id).state is TERMINATED


@pytest.mark.parametrize("is_alive", [True, False])
async def test_the_claim_of_a_holder_that_died_is_rolled_back_or_ended(is_alive: bool) -> None:
    async with a_pool(small()) as world:
        one = await claimed(world)
        await asyncio.sleep(661)
        if not is_alive:
            mute(world, [one.id])
            await asyncio.sleep(60)
        await refreshed(world)
        assert record(world, one.id).state is (IDLE if is_alive else TERMINATED)


async def test_a_provision_that_is_settled_leaves_the_members_of_a_set_alone() -> None:
    async with a_pool(small()) as world:
        one = await member(world)
        ports = world.ports()
        await provisioned(world, "run-1", 1)
        (decided,) = (p for p in world.memory.tables.provisions.values() if p.run_id == "run-1")
        assert one.id not in [held.id for held in await debts.instances_of(ports, decided)]
        await released(world, "run-1")
        assert record(world, one.id) == one


async def test_a_member_that_is_given_back_is_cleaned_and_on_offer_like_any_other() -> None:
    async with a_pool(small()) as world:
        one = await member(world)
        now = world.clock.now()
        times = {"at": now, "until": after(now, 120), "offer_due": after(now, 5)}
        await world.ports().records.apply(release(one, **times))
        await asyncio.sleep(30)
        await refreshed(world)
        assert record(world, one.id).is_claimable


# ---- runs


@pytest.mark.parametrize("run_id", [RUN_ID, "run-1"])
async def test_no_run_gets_a_member_of_a_set_or_ends_it_not_even_one_of_the_same_id(run_id: str) -> None:
    async with a_pool(small()) as world:
        one = await member(world)
        mute(world, [one.id])
        await asyncio.sleep(60)
        outcome = await provisioned(world, run_id, 1)
        assert outcome.succeeded
        assert ids(outcome) != [one.id]
        assert record(world, one.id) == one


async def test_releasing_a_run_with_the_id_of_a_set_gives_back_no_member() -> None:
    async with a_pool(small()) as world:
        one = await member(world)
        answer = await released(world, RUN_ID)
        assert (answer.offered, answer.pending, answer.terminated) == ((), (), ())
        assert record(world, one.id) == one


async def test_a_member_is_held_for_no_workflow_run() -> None:
    async with a_pool() as world:
        one = await member(world)
        work_for_the_set(world, one.id)
        await asyncio.sleep(6)
        assert await holdings.gather(world.ports(), world.settings, []) == {}


# ---- busy


@pytest.mark.parametrize("is_given_back", [True, False], ids=["given back", "claimed"])
async def test_a_job_that_begins_before_its_runner_is_given_back_gets_the_time_of_its_set(is_given_back: bool) -> None:
    async with a_pool(on_github(Timings(max_runtime=600))) as world:
        one = await member(world) if is_given_back else await claimed(world)
        await asyncio.sleep(10)
        work_for_the_set(world, one.id)
        now = world.clock.now()
        if is_given_back:
            times = {"at": now, "until": after(now, 120), "offer_due": after(now, 5)}
            (one,) = await world.ports().records.apply(release(one, **times))
        await asyncio.sleep(6)
        at_work = await busy.at_work(world.ports(), world.settings, [one.id])
        await busy.spare(world.ports(), world.settings, [one], at_work, by="a test")
        assert record(world, one.id).threshold >= after(now, RUNTIME)


async def test_a_job_of_a_run_gets_no_more_time_because_there_are_sets() -> None:
    async with a_pool(on_github(Timings(max_runtime=600))) as world:
        one = await claimed(world)
        world.tempers[one.id].work(Activity("octo/repo", "4711", 1, "4711", f"bullpen.{one.id}.0", "build"))
        await asyncio.sleep(6)
        at_work = await busy.at_work(world.ports(), world.settings, [one.id])
        one = (await world.ports().records.instances([one.id]))[one.id]
        await asyncio.sleep(500)
        await busy.spare(world.ports(), world.settings, [one], at_work, by="a test")
        assert record(world, one.id).threshold <= after(world.clock.now(), 600)


# ---- registrations


async def test_a_member_that_is_cleaned_between_two_jobs_is_not_ended_because_github_does_not_list_it() -> None:
    async with a_pool() as world:
        one = await member(world)
        world.memory.registrations.clear()
        for _ in range(3):
            await refreshed(world)
            await asyncio.sleep(59)  # three looks in two minutes: as long as cleaning may take
        assert record(world, one.id) == one
        assert machines(world) == [one.id]


async def test_the_runner_of_a_member_is_not_removed_for_having_no_label() -> None:
    async with a_pool() as world:
        one = await member(world)
        world.memory.registrations.clear()
        online, offline = f"bullpen.{one.id}.0.1", f"bullpen.{one.id}.0.2"
        world.memory.registrations[online] = Registration(one.id, "", busy=False, runner=online, online=True)
        world.memory.registrations[offline] = Registration(one.id, "", busy=False, runner=offline, online=False)
        for _ in range(4):
            await refreshed(world)
            await asyncio.sleep(61)
        assert list(world.memory.registrations) == [online, offline]
        assert steps(world, one.id)[-1] == "engage"


# ---- what must hold


async def test_a_member_of_a_set_that_may_have_runners_is_well_owned() -> None:
    async with a_pool(small()) as world:
        await member(world)
        assert invariants.always(world.memory) == []
        assert await audit(world.ports()) == []
        records = world.ports().records
        for step in (mark_missing, lambda one: retire(one, later(5))):
            scale_set: ScaleSet = (await records.scale_sets())[NAME]
            await records.apply(step(scale_set))
            assert invariants.always(world.memory) == []
            assert await audit(world.ports()) == []


async def test_a_member_of_a_set_that_is_gone_is_reported() -> None:
    async with a_pool(small()) as world:
        one = await member(world)
        records = world.ports().records
        (retiring,) = await records.apply(retire((await records.scale_sets())[NAME]))
        await records.apply(gone(retiring))
        assert any(one.id in line for line in invariants.always(world.memory))
        assert any(one.id in line for line in await audit(world.ports()))
        world.memory.tables.scale_sets.clear()
        assert any("absent" in line for line in invariants.always(world.memory))
