"""A run that loses runners replaces them, on a home and through a server alike; on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bullpen.model.instance import RUNNING
from bullpen.model.job import QUEUED, Job, Result
from bullpen.model.ticket import UsageClass
from bullpen.operate import pause, resume
from bullpen.provision import Request
from bullpen.run import RunOptions, RunOutcome, run
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, machines, records, small
from some_runs import a_run, lose_runner, until_running, wanted

Begin = Callable[..., Coroutine[Any, Any, tuple[RunOutcome, list[str]]]]
LONG = "sleep 90"
"""Outlasts the loss of a runner, which is noticed and replaced within a minute. A run asks its server twice a second,
so a virtual minute costs up to half a real second."""


@pytest.fixture(params=["on a home", pytest.param("through a server", marks=pytest.mark.slow)])
def begin(request: pytest.FixtureRequest, tmp_path: Path) -> Begin:
    """As `a_run`."""
    return partial(a_run, served=tmp_path if request.param == "through a server" else None)


# --------------------------------------------------------------------------------------------------------------- losses


async def test_a_lost_runner_is_replaced_and_its_job_runs_again_with_one_result(begin: Begin) -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(begin(world, wanted(LONG, LONG), count=2))
        victim, survivor = await until_running(world, 2)
        world.agents[victim.instance_id].kill()
        world.memory.yard.end(victim.instance_id)
        ran, printed = await running
        assert ran.exit_code == 0
        told = {job.id: job for job in ran.jobs}
        assert (told[victim.id].losses, told[survivor.id].losses) == (1, 0)
        assert told[victim.id].instance_id not in (victim.instance_id, survivor.instance_id), "on a new runner"
        steps = [line.step for line in world.memory.tables.stories[victim.id]]
        assert steps.count("finish") == 1
        assert any("attempt 2" in line for line in printed)
        assert records(world, RUNNING) == []


async def test_one_lost_runner_of_three_that_came_on_demand_instead_of_spot_gets_one_replacement(begin: Begin) -> None:
    async with a_world(settings=small(spot_fallback=True)) as world:
        world.memory.yard.spot_capacity = 0
        run = begin(world, wanted(*[LONG] * 3), count=3, usage_class=UsageClass.SPOT)
        running = asyncio.get_running_loop().create_task(run)
        victim, *_ = await until_running(world, 3)
        world.agents[victim.instance_id].kill()
        world.memory.yard.end(victim.instance_id)
        ran, _ = await running
        assert ran.exit_code == 0
        assert len(records(world)) == 4


@pytest.mark.parametrize("allow_partial", [False, True])
async def test_a_replacement_that_cannot_be_launched_is_asked_for_again_after_a_while(
    begin: Begin, allow_partial: bool
) -> None:
    async with a_world(settings=small()) as world:
        run = begin(world, wanted("sleep 190", "sleep 190"), count=2, allow_partial=allow_partial)
        running = asyncio.get_running_loop().create_task(run)
        victim, _ = await until_running(world, 2)
        world.memory.yard.capacity = 0
        world.agents[victim.instance_id].kill()
        world.memory.yard.end(victim.instance_id)
        await asyncio.sleep(70)  # the loss has been noticed
        asked = len(world.memory.yard.answers)
        await asyncio.sleep(100)
        assert 15 <= len(world.memory.yard.answers) - asked <= 20, "every 5 s and a little"
        world.memory.yard.capacity = 10
        ran, _ = await running
        assert ran.exit_code == 0


async def test_while_its_class_is_paused_a_run_waits_for_the_resume_and_its_tries_leave_no_record() -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(a_run(world, wanted("sleep 90"), count=1))
        (victim,) = await until_running(world, 1)
        await pause(world.ports(), world.settings, "small", "the image is broken", operator="ada")
        world.agents[victim.instance_id].kill()
        world.memory.yard.end(victim.instance_id)
        await asyncio.sleep(900)
        assert not running.done()
        assert len(world.memory.tables.provisions) == 1
        await resume(world.ports(), world.settings, "small", operator="ada")
        ran, _ = await running
        assert ran.exit_code == 0


async def test_a_mute_runner_is_kept_for_its_return_but_not_counted_and_ended_with_the_run(begin: Begin) -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(begin(world, wanted(LONG), count=1))
        (victim,) = await until_running(world, 1)
        world.agents[victim.instance_id].pause()
        (again,) = await until_running(world, 1, losses=1)
        assert again.instance_id != victim.instance_id
        assert victim.instance_id in machines(world), "it may come back"
        ran, _ = await running
        assert ran.exit_code == 0
        assert victim.instance_id not in machines(world)


async def test_a_release_does_not_wait_for_a_mute_runner_of_its_run() -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(a_run(world, wanted(LONG), count=1))
        (victim,) = await until_running(world, 1)
        world.agents[victim.instance_id].pause()
        ran, _ = await running
        assert ran.released is not None
        assert victim.instance_id not in ran.released.terminated


async def test_a_job_that_loses_three_runners_fails_with_the_reason(begin: Begin) -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(begin(world, wanted("sleep 1000"), count=1))
        for losses in range(3):
            (job,) = await until_running(world, 1, losses)
            world.agents[job.instance_id].kill()
            world.memory.yard.end(job.instance_id)
        ran, _ = await running
        assert (ran.exit_code, ran.jobs[0].result) == (1, Result.FAILED)
        assert "3" in ran.jobs[0].reason


# ------------------------------------------------------------------------------------------------------ one job on each

ONE_EACH = RunOptions(one_each=True)


async def until_kept(world: World, job: Job) -> None:
    while True:
        if any(line.step == "postpone" for line in world.memory.tables.stories[job.id]):
            return
        await asyncio.sleep(0.1)


async def test_each_runner_executes_one_job_however_fast_it_is(begin: Begin) -> None:
    async with a_world(settings=small()) as world:
        ran, _ = await begin(world, wanted(*["true"] * 8), count=8, options=ONE_EACH)
        assert len({job.instance_id for job in ran.jobs}) == 8


async def test_the_job_of_a_lost_runner_waits_for_its_replacement_although_others_are_free(begin: Begin) -> None:
    async with a_world(settings=small(), temper=lambda n: Temper(boots_in=1.0 if n < 3 else 80.0)) as world:
        run = begin(world, wanted(LONG, "true", "true"), count=3, options=ONE_EACH)
        running = asyncio.get_running_loop().create_task(run)
        (victim,) = [job for job in await until_running(world, 1) if job.command[0] == "sleep"]
        await asyncio.sleep(10)  # the others have ended, and their runners are free
        await lose_runner(world, victim)
        ran, _ = await running
        assert ran.exit_code == 0
        assert ran.jobs[0].losses == 1
        assert len({victim.instance_id, *(job.instance_id for job in ran.jobs)}) == 4, "on a runner that had no job"


async def test_without_a_replacement_the_job_of_a_lost_runner_goes_to_another_runner(begin: Begin) -> None:
    async with a_world(settings=small()) as world:
        run = begin(world, wanted(LONG, "true"), count=2, options=ONE_EACH)
        running = asyncio.get_running_loop().create_task(run)
        (victim,) = [job for job in await until_running(world, 1) if job.command[0] == "sleep"]
        await asyncio.sleep(10)
        world.memory.yard.capacity = 0
        await lose_runner(world, victim)
        ran, _ = await running
        assert ran.exit_code == 0
        assert ran.jobs[0].instance_id == ran.jobs[1].instance_id


async def test_if_the_run_is_killed_while_a_lost_job_is_kept_another_runner_takes_it() -> None:
    async with a_world(settings=small()) as world:
        request = Request("run-1", 2, world.settings.requirements("small"), world.settings.timings.max_runtime)
        process, _ = world.start(
            "run",
            lambda ports: run(
                ports,
                world.settings,
                request,
                wanted(LONG, "true"),
                stop=asyncio.Event(),
                options=ONE_EACH,
            ),
        )
        (victim,) = [job for job in await until_running(world, 1) if job.command[0] == "sleep"]
        await asyncio.sleep(10)
        await lose_runner(world, victim)
        await until_kept(world, victim)
        process.kill()
        await asyncio.sleep(120)
        assert world.memory.tables.jobs[victim.id].state is not QUEUED
