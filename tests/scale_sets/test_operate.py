"""Pauses and drains of a class with a scale set: no further job and no further runner; what runs goes on."""

import asyncio

import pytest

from bullpen.model.instance import TERMINATED
from bullpen.operate import drain, pause, resume, rotate
from bullpen.sim.world import World
from scale_sets.fixtures import a_set_world, is_done, members, push, serve, session, set_of, settings_of, until_done

WITHIN = 3.0  # seconds: every server has read the pause by then


async def until_members(world: World, count: int) -> None:
    while len(members(world)) < count:  # noqa: ASYNC110
        await asyncio.sleep(1)


async def paused(world: World) -> None:
    await pause(world.ports(), world.settings, "small", "the image is broken", operator="ada")


async def resumed(world: World) -> None:
    await resume(world.ports(), world.settings, "small", operator="ada")


async def test_a_paused_set_gets_no_runner_and_says_who_paused_it_and_goes_on_after_the_resume() -> None:
    async with a_set_world() as world:
        serve(world)
        await asyncio.sleep(400)  # a new session waits for jobs that were never announced
        await paused(world)
        await asyncio.sleep(WITHIN)
        run = push(world, 2)
        await asyncio.sleep(240)
        assert members(world) == []
        assert not is_done(world, [run])
        waiting = session(world).waiting
        assert all("class small is paused by ada" in one.why for one in waiting), waiting
        await resumed(world)
        await until_done(world, run, within=600)


async def test_a_job_that_runs_goes_on_while_its_class_is_paused() -> None:
    async with a_set_world() as world:
        serve(world)
        run = push(world, 1, lasts=300.0)
        await until_members(world, 1)
        await asyncio.sleep(60)
        await paused(world)
        await asyncio.sleep(60)
        assert set_of(world).capacity == 1, "no more than the job that runs"
        await until_done(world, run, within=600)
        await resumed(world)
        await asyncio.sleep(60)
        assert set_of(world).capacity == 20


async def test_a_paused_set_keeps_no_runner_for_jobs_to_come() -> None:
    async with a_set_world(settings_of(min=2)) as world:
        serve(world)
        await until_members(world, 2)
        await paused(world)
        await asyncio.sleep(600)
        assert members(world) == []
        await resumed(world)
        await until_members(world, 2)


async def test_nothing_is_launched_for_a_paused_set() -> None:
    async with a_set_world() as world:
        serve(world)
        serve(world, "web-2")
        await asyncio.sleep(400)
        before = len(world.memory.yard.sightings)
        await paused(world)
        await asyncio.sleep(WITHIN)
        push(world, 3)
        await asyncio.sleep(200)
        assert len(world.memory.yard.sightings) == before


async def test_a_drained_member_finishes_its_job_and_is_ended() -> None:
    async with a_set_world() as world:
        serve(world)
        run = push(world, 1, lasts=300.0)
        await until_members(world, 1)
        await asyncio.sleep(60)
        some = [one.id for one in members(world)]
        await drain(world.ports(), world.settings, some, operator="ada")
        await asyncio.sleep(60)
        assert len([one for one in members(world) if one.id in some]) == 1, "the one with the job"
        await until_done(world, run, within=600)
        await asyncio.sleep(200)
        drained = [world.memory.tables.instances[id] for id in some]
        assert {one.state for one in drained} == {TERMINATED}
        assert any("drained" in world.memory.tables.stories[id][-2].why for id in some)


async def test_jobs_that_were_queued_during_a_pause_are_all_done_after_it() -> None:
    async with a_set_world() as world:
        serve(world)
        await asyncio.sleep(400)
        await paused(world)
        await asyncio.sleep(60)
        runs = [push(world, 2) for _ in range(4)]
        await asyncio.sleep(120)
        assert members(world) == []
        await resumed(world)
        await until_done(world, *runs, within=900)


async def waiting(world: World, count: int) -> list[str]:
    """The members, once so many wait for jobs."""
    await until_members(world, count)
    await asyncio.sleep(400)  # a new session waits for jobs that were never announced
    return [one.id for one in members(world)]


@pytest.mark.parametrize(("least", "kept"), [(2, 1), (4, 3), (8, 6)])
async def test_a_rotation_replaces_the_members_that_wait_a_share_of_min_at_a_time(least: int, kept: int) -> None:
    async with a_set_world(settings_of(min=least)) as world:
        serve(world)
        old = await waiting(world, least)
        (done,) = (await rotate(world.ports(), world.settings, "small", operator="ada")).actions
        assert done.reason == f"{least} in scale sets: ended once free, as far as their `min` allows"
        seen = []
        while {one.id for one in members(world)} & {*old}:
            seen.append(sum(not one.is_drained for one in members(world)))
            assert len(seen) < 600, "the rotation does not go on"
            await asyncio.sleep(1)
        assert min(seen) >= kept, seen
        await asyncio.sleep(60)
        assert len(members(world)) == least
        assert not world.memory.tables.rotations["rotation:small"].is_on


async def test_a_rotation_drains_members_with_a_job_at_once_and_no_job_is_lost() -> None:
    async with a_set_world(settings_of(min=2)) as world:
        serve(world)
        await waiting(world, 2)
        run = push(world, 3, lasts=300.0)
        await until_members(world, 5)
        await asyncio.sleep(30)
        await rotate(world.ports(), world.settings, "small", operator="ada")
        assert sum(one.is_drained for one in members(world)) == 4, "three with a job, and one of the two that wait"
        await until_done(world, run, within=600)
        await asyncio.sleep(120)
        assert not world.memory.tables.rotations["rotation:small"].is_on
        assert len(members(world)) == 2


async def test_jobs_that_come_while_a_set_is_rotated_all_run() -> None:
    async with a_set_world(settings_of(min=2)) as world:
        serve(world)
        await waiting(world, 2)
        await rotate(world.ports(), world.settings, "small", operator="ada")
        runs = []
        for _ in range(12):
            runs.append(push(world, 2, lasts=20.0))
            await asyncio.sleep(7)
        await until_done(world, *runs, within=600)
