"""Drain: an instance takes no new run, and is ended once it is free; never under the run that has it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from bullpen.errors import ConfigError, NotFound
from bullpen.model import instance as instances
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED
from bullpen.model.pause import pause_key
from bullpen.model.ticket import UsageClass
from bullpen.model.times import later
from bullpen.operate import OperateOutcome, drain, pause, resume
from bullpen.sim.world import World
from fixtures import a_world, ids, machines, provisioned, records, refreshed, released, small, steps, tickets, with_pool


async def drained(world: World, *some: str, **more: Any) -> OperateOutcome:
    return await drain(world.ports(), world.settings, some, **{"operator": "ada", **more})


def whats(outcome: OperateOutcome) -> list[tuple[str, str]]:
    return [(one.what, one.subject) for one in outcome.actions]


async def test_one_on_offer_is_ended_at_once() -> None:
    async with a_world() as world:
        one, other = await with_pool(world, 2)
        assert whats(await drained(world, one, note="disk is full")) == [("end", one)]
        assert machines(world) == [other]
        line = world.memory.tables.stories[one][-2]
        assert (line.step, line.by, line.why) == ("expire", "ada", "drained by ada: disk is full")
        now = world.ports().clock.now()
        (noted,) = (await world.ports().history.actions(now - timedelta(hours=1), later(now, 1), 10)).rows
        assert (noted.by, noted.did, noted.reason) == ("operator/ada", "end", "disk is full; it is free")


async def test_a_busy_one_finishes_its_run_and_is_ended_instead_of_offered() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 2)
        one, other = ids(outcome)
        assert whats(await drained(world, one)) == [("drain", one)]
        await asyncio.sleep(600)
        await refreshed(world)
        assert world.memory.tables.instances[one].state is RUNNING
        done = await released(world, "run")
        assert (done.terminated, done.offered) == ((one,), (other,))
        assert machines(world) == [other]
        assert [ticket.instance_id for ticket in tickets(world)] == [other]
        assert world.memory.tables.stories[one][-2].why == "drained, and free now"
        assert "drain" in steps(world, one)


async def test_one_that_is_being_cleaned_is_ended_when_it_is_clean() -> None:
    async with a_world() as world:
        (one,) = ids(await provisioned(world, "run", 1))
        releasing = asyncio.create_task(released(world, "run"))
        while not records(world, IDLE):  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert whats(await drained(world, one)) == [("drain", one)]
        done = await releasing
        assert done.terminated == (one,)
        assert "offer" not in steps(world, one)


@pytest.mark.parametrize("state", [CREATED, CLAIMED])
async def test_one_that_a_provision_acquires_still_serves_its_run(state: instances.State) -> None:
    async with a_world() as world:
        if state is CLAIMED:
            await with_pool(world, 1)
        provisioning = asyncio.create_task(provisioned(world, "run", 1))
        while not records(world, state):  # noqa: ASYNC110
            await asyncio.sleep(0)
        (one,) = records(world, state)
        assert whats(await drained(world, one.id)) == [("drain", one.id)]
        outcome = await provisioning
        assert ids(outcome) == [one.id]
        assert world.memory.tables.instances[one.id].state is RUNNING
        assert (await released(world, "run")).terminated == (one.id,)


async def test_a_class_is_paused_and_every_instance_of_it_drained() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        await provisioned(world, "run", 1)
        await refreshed(world)
        await asyncio.sleep(60)
        await refreshed(world)
        outcome = await drained(world, resource_class="small", note="moving to arm64")
        assert [one.what for one in outcome.actions] == ["pause", "end", "end", "drain"]
        assert outcome.pause is not None
        assert (outcome.pause.note, outcome.pause.drains) == ("moving to arm64", True)
        await refreshed(world)
        assert len(machines(world)) == 1
        assert not (await provisioned(world, "next", 1)).succeeded
        await released(world, "run")
        await refreshed(world)
        assert machines(world) == []


async def test_a_drained_class_also_drains_what_a_provision_that_had_begun_registers_later() -> None:
    async with a_world() as world:
        begun = asyncio.create_task(provisioned(world, "run", 2))
        await asyncio.sleep(0.01)
        await drained(world, resource_class="small")
        outcome = await begun
        assert outcome.succeeded
        await refreshed(world)
        assert all(one.is_drained for one in records(world, RUNNING))
        await released(world, "run")
        assert machines(world) == []


async def test_after_the_resume_the_class_is_used_again_and_what_was_drained_is_not() -> None:
    async with a_world() as world:
        (one,) = ids(await provisioned(world, "run", 1))
        await drained(world, resource_class="small")
        await resume(world.ports(), world.settings, "small", operator="ada")
        assert (await provisioned(world, "next", 1)).succeeded
        await refreshed(world)
        (next_one,) = [other for other in records(world, RUNNING) if other.id != one]
        assert not next_one.is_drained
        assert (await released(world, "run")).terminated == (one,)


async def test_a_dry_run_changes_nothing() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        before = dict(world.memory.tables.instances)
        assert whats(await drained(world, *pool, dry_run=True)) == [("end", one) for one in pool]
        outcome = await drained(world, resource_class="small", dry_run=True)
        assert [one.what for one in outcome.actions] == ["pause", "end", "end"]
        assert world.memory.tables.instances == before
        assert world.memory.tables.pauses == {}


async def test_what_has_ended_or_is_drained_already_is_skipped() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        (busy,) = ids(await provisioned(world, "run", 1, usage_class=UsageClass.SPOT))
        await drained(world, one, busy)
        assert whats(await drained(world, one, busy, busy)) == [("skip", one), ("skip", busy)]


async def test_unknown_instances_are_named_and_nothing_is_drained() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        with pytest.raises(NotFound, match="i-9, i-8: no such instance"):
            await drained(world, "i-9", one, "i-8")
        assert machines(world) == [one]


@pytest.mark.parametrize("given", [{}, {"resource_class": "small", "some": ("i-1",)}])
async def test_either_instances_or_a_class_are_named(given: dict[str, Any]) -> None:
    async with a_world() as world:
        with pytest.raises(ConfigError, match="name some, or a resource class, and not both"):
            await drained(world, *given.pop("some", ()), **given)


async def test_a_class_of_which_only_instances_are_left_can_be_drained() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        world.settings = small().__class__(classes={"other": world.settings.classes["small"]})
        assert "drain" in [one.what for one in (await drained(world, resource_class="small")).actions]
        with pytest.raises(ConfigError, match="not configured"):
            await drained(world, resource_class="unknown")


async def test_a_claim_that_is_faster_keeps_its_instance() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        ports = world.ports()
        read = ports.records.instances

        async def raced(some: Any) -> Any:
            found = await read(some)
            if len(steps(world, one)) < 6:
                await provisioned(world, "run", 1)  # between the read and the write
            return found

        ports.records.instances = raced  # type: ignore[method-assign, assignment]
        outcome = await drain(ports, world.settings, [one], operator="ada")
        assert whats(outcome) == [("drain", one)], "what was done, not what was planned"
        assert outcome.actions[0].reason.startswith("it is running for run")
        record = world.memory.tables.instances[one]
        assert (record.state, record.run_id, record.is_drained) == (RUNNING, "run", True)
        assert (await released(world, "run")).terminated == (one,)


async def test_one_that_ends_between_the_read_and_the_write_is_skipped() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        ports = world.ports()
        read = ports.records.instances

        async def raced(some: Any) -> Any:
            found = await read(some)
            await drained(world, one)
            return found

        ports.records.instances = raced  # type: ignore[method-assign, assignment]
        outcome = await drain(ports, world.settings, [one], operator="bob")
        assert [(done.what, done.reason) for done in outcome.actions] == [("skip", "it has ended")]


async def test_a_drain_without_a_note_keeps_the_note_of_the_pause() -> None:
    async with a_world() as world:
        await pause(world.ports(), world.settings, "small", "image 12 does not boot", operator="ada")
        assert [one.what for one in (await drained(world, resource_class="small")).actions] == ["pause"]
        stored = world.memory.tables.pauses[pause_key("small")]
        assert (stored.note, stored.drains) == ("image 12 does not boot", True)
        assert (await drained(world, resource_class="small")).actions == ()
        await drained(world, resource_class="small", note="moving to arm64")
        assert world.memory.tables.pauses[pause_key("small")].note == "moving to arm64"


async def test_the_pause_of_a_drained_class_says_so() -> None:
    async with a_world() as world:
        await drained(world, resource_class="small")
        assert world.memory.tables.pauses[pause_key("small")].note == "drained"
        assert records(world, TERMINATED) == []
