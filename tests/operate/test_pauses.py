"""Pause and resume: nothing new starts, what runs goes on, and everyone is told who paused it and why."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bullpen.config import ResourceClass, Settings
from bullpen.errors import ConfigError, FailureCause
from bullpen.model.instance import CREATED, IDLE, RUNNING
from bullpen.model.pause import PoolPaused, absent, pause_key
from bullpen.model.pause import pause as pause_step
from bullpen.model.progress import ProgressReport
from bullpen.model.provision import Provision
from bullpen.operate import OperateOutcome, pause, resume
from bullpen.sim.world import World
from fixtures import a_world, ids, now, provisioned, records, refreshed, released, requests, steps, with_pool
from histories import loses_members

NOTE = "the image of large is broken"


def classes(**targets: int) -> Settings:
    return Settings(classes={name: ResourceClass(cpu=1, mem=1024, idle_target=n) for name, n in targets.items()})


async def paused(world: World, resource_class: str = "", note: str = NOTE, **more: Any) -> OperateOutcome:
    return await pause(world.ports(), world.settings, resource_class, note, **{"operator": "ada", **more})


async def resumed(world: World, resource_class: str = "", **more: Any) -> OperateOutcome:
    return await resume(world.ports(), world.settings, resource_class, **{"operator": "bob", **more})


def pauses_at(world: World, moment: Callable[[Any, Any], bool], resource_class: str) -> None:
    """An operator pauses it right after the first write of this kind."""
    tables = world.memory.tables
    write = tables._write

    def pausing(change: Any, record: Any) -> None:
        write(change, record)
        if not tables.pauses and moment(change, record):
            event = PoolPaused(at=world.clock.now(), by="ada", why=NOTE, note=NOTE, operator="ada")
            tables.land([pause_step(absent(resource_class), event)])

    tables._write = pausing  # type: ignore[method-assign]


@pytest.mark.parametrize("resource_class", ["small", ""])
async def test_no_provision_starts_and_its_error_names_who_paused_it_since_when_and_why(resource_class: str) -> None:
    async with a_world() as world:
        pool = await with_pool(world, 1)
        await paused(world, resource_class)
        outcome = await provisioned(world, "run", 1)
        what = "class small" if resource_class else "the whole pool"
        assert outcome.reason.startswith(f"{what} is paused by ada since 20")
        assert outcome.reason.endswith(f"Z: {NOTE}")
        assert outcome.cause is FailureCause.PAUSED
        assert "bullpen resume" in outcome.remedy
        assert "--wait" in outcome.remedy
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == pool
        assert outcome.exit_code == 1


async def test_other_classes_go_on() -> None:
    async with a_world(settings=classes(small=0, large=0)) as world:
        await paused(world, "large")
        assert (await provisioned(world, "run", 1)).succeeded
        assert not (await provisioned(world, "other", 1, resource_class="large")).succeeded


async def test_after_the_resume_provisions_start_again() -> None:
    async with a_world() as world:
        await paused(world)
        await resumed(world)
        assert (await provisioned(world, "run", 1)).succeeded


async def test_a_waiting_provision_begins_at_the_resume() -> None:
    async with a_world() as world:
        await paused(world, "small")
        told = list[ProgressReport]()
        waiter = asyncio.create_task(provisioned(world, "run", 1, wait=600.0, tell=told.append))
        await asyncio.sleep(60)
        assert not waiter.done()
        (waiting,) = [one for one in world.memory.tables.provisions.values() if one.is_waiting]
        assert waiting.waits_for == "a resume"
        assert told[-1].text.startswith("waiting for the resume: class small is paused by ada")
        began = now()
        await resumed(world, "small")
        assert (await waiter).succeeded
        assert now() - began < 10


async def test_one_that_waited_long_enough_says_that_it_is_still_paused() -> None:
    async with a_world() as world:
        await paused(world)
        outcome = await provisioned(world, "run", 1, wait=30.0)
        assert outcome.reason.startswith("waited 30 s: the whole pool is paused by ada")
        assert outcome.cause is FailureCause.PAUSED


async def test_one_that_waits_for_the_resume_of_its_class_is_in_front_of_no_other() -> None:
    async with a_world(settings=classes(small=0, large=0)) as world:
        await paused(world, "large")
        waiter = asyncio.create_task(provisioned(world, "waits", 1, resource_class="large", wait=600.0))
        await asyncio.sleep(5)
        began = now()
        assert (await provisioned(world, "run", 1)).succeeded
        assert now() - began < 5
        await resumed(world, "large")
        assert (await waiter).succeeded


async def test_a_provision_that_has_begun_finishes() -> None:
    async with a_world() as world:
        begun = asyncio.create_task(provisioned(world, "run", 2))
        while not records(world, CREATED):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await paused(world)
        assert (await begun).succeeded


async def test_a_run_that_has_all_its_runners_is_answered_although_its_class_is_paused() -> None:
    async with a_world() as world:
        first = await provisioned(world, "run", 2)
        await paused(world)
        again = await provisioned(world, "run", 2)
        assert again.succeeded
        assert ids(again) == ids(first)


async def test_what_runs_is_released_and_cleaned() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 2)
        await paused(world)
        assert len((await released(world, "run")).offered) == 2
        assert records(world, RUNNING) == []


async def test_nothing_is_launched_or_kept_warm_while_it_is_paused() -> None:
    async with a_world(settings=classes(small=2, large=1)) as world:
        await paused(world, "small")
        actions = await refreshed(world)
        assert [one.subject for one in actions if one.what == "create"] == ["1 × large"]
        await resumed(world, "small")
        actions = await refreshed(world)
        assert [one.subject for one in actions if one.what == "create"] == ["2 × small"]


@pytest.mark.parametrize("resource_class", ["small", ""])
async def test_a_launch_for_the_idle_target_that_is_opened_as_the_pause_lands_launches_nothing(
    resource_class: str,
) -> None:
    async with a_world(settings=classes(small=2)) as world:
        pauses_at(world, lambda change, record: isinstance(record, Provision), resource_class)
        assert [one for one in await refreshed(world) if one.what == "create"] == []
        assert world.memory.tables.pauses
        assert records(world, CREATED) == []
        await resumed(world, resource_class)
        assert [one.subject for one in await refreshed(world) if one.what == "create"] == ["2 × small"]


async def test_what_is_on_offer_stays_until_its_threshold_and_is_not_kept_longer() -> None:
    async with a_world(settings=classes(small=2)) as world:
        await refreshed(world)
        await asyncio.sleep(60)
        await refreshed(world)
        assert len([one for one in records(world, IDLE) if one.is_claimable]) == 2
        await paused(world)
        await asyncio.sleep(world.settings.timings.idle / 2 + 10)
        assert [one.what for one in await refreshed(world) if one.what in ("keep", "terminate")] == []
        await asyncio.sleep(world.settings.timings.idle / 2 + 10)
        assert [one.what for one in await refreshed(world)].count("terminate") == 2


async def test_the_pauses_cost_a_provision_no_request() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        ports = world.ports()
        assert (await provisioned(world, "run", 1, ports)).succeeded
        asked = requests(ports)
        assert asked["records.pauses"] == 0
        assert asked["records.ahead"] == 1
        assert asked["records.waiting_provisions"] == 0


async def test_a_dry_run_says_what_it_would_do_and_changes_nothing() -> None:
    async with a_world() as world:
        outcome = await paused(world, "small", dry_run=True)
        assert (outcome.dry_run, outcome.pause) == (True, None)
        assert [(one.what, one.subject) for one in outcome.actions] == [("pause", "class small")]
        assert world.memory.tables.pauses == {}
        await paused(world, "small")
        assert [one.what for one in (await resumed(world, "small", dry_run=True)).actions] == ["resume"]
        assert world.memory.tables.pauses[pause_key("small")].is_on


async def test_the_same_pause_again_does_nothing_and_another_note_is_written() -> None:
    async with a_world() as world:
        await paused(world)
        assert (await paused(world)).actions == ()
        changed = await paused(world, note="a new image is being built")
        assert [one.what for one in changed.actions] == ["change note"]
        assert changed.pause is not None
        assert changed.pause.note == "a new image is being built"
        assert steps(world, pause_key("")) == ["pause", "pause"]


async def test_resuming_what_is_not_paused_does_nothing_and_says_what_still_is() -> None:
    async with a_world() as world:
        assert (await resumed(world, "small")).actions == ()
        await paused(world)
        outcome = await resumed(world, "small")
        assert outcome.actions == ()
        assert outcome.pause is not None
        assert outcome.pause.resource_class == ""


async def test_the_pause_of_a_class_that_is_not_configured_any_more_can_be_taken_back() -> None:
    async with a_world(settings=classes(small=0, large=0)) as world:
        await paused(world, "large")
        world.settings = classes(small=0)
        with pytest.raises(ConfigError, match="not configured"):
            await paused(world, "large")
        assert [one.what for one in (await resumed(world, "large")).actions] == ["resume"]


async def test_of_operators_that_pause_at_the_same_moment_each_lands() -> None:
    async with a_world() as world:
        outcomes = await asyncio.gather(*(paused(world, note=f"note {n}", operator=f"op{n}") for n in range(4)))
        assert all(one.pause is not None for one in outcomes)
        assert steps(world, pause_key("")) == ["pause"] * 4


@pytest.mark.parametrize("note", ["", "   ", "two\nlines", "\x1b[2J", "x" * 501, "\u202eright to left"])
async def test_a_note_that_is_missing_or_could_change_a_terminal_is_refused(note: str) -> None:
    async with a_world() as world:
        with pytest.raises(ConfigError) as refused:
            await paused(world, note=note)
        assert refused.value.field == "note"
        assert "must be one line of at most 500 printable characters" in str(refused.value)
        assert world.memory.tables.pauses == {}


async def test_a_class_that_is_not_known_is_refused() -> None:
    async with a_world() as world:
        with pytest.raises(ConfigError, match="not configured; known are"):
            await paused(world, "huge")


async def test_a_call_that_has_begun_replaces_a_member_that_it_lost_although_its_class_was_paused_meanwhile() -> None:
    async with a_world() as world:
        loses_members(world, "run")
        pauses_at(world, lambda change, record: change.step == "commit" and isinstance(record, Provision), "small")
        outcome = await provisioned(world, "run", 2)
        assert world.memory.tables.pauses[pause_key("small")].is_on
        assert outcome.succeeded, outcome.reason
        assert len(outcome.members) == 2
