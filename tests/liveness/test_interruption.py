"""Workers whose machine is about to be taken away: no new job, no claim, and a replacement in time."""

import asyncio
from datetime import timedelta

from bullpen import jobs
from bullpen.jobs import JobRequest
from bullpen.liveness import LivenessController
from bullpen.model import worker as workers
from bullpen.model.instance import RUNNING, TERMINATED, Instance
from bullpen.model.job import Result
from bullpen.model.signal import direct_key
from bullpen.refresh import refresh
from bullpen.sim.world import World
from fixtures import a_world, provisioned, records, released, small
from some_runs import a_run, until_running, wanted


async def gets_notice(world: World, instance_id: str) -> None:
    """As if the next beat of its agent had said so."""
    ports = world.ports()
    key = direct_key(instance_id)
    stored = (await ports.workers.workers([key]))[key]
    now = ports.clock.now()
    beat = workers.Beat(at=now, by=key, token=stored.token, lease=60.0, leaving=now + timedelta(seconds=120))
    await ports.records.apply(workers.heartbeat(stored, beat))


def runners(world: World) -> list[Instance]:
    return [one for one in records(world) if one.state is RUNNING]


async def an_idle_one(world: World) -> Instance:
    await provisioned(world, "run-0", 1)
    await released(world, "run-0")
    (one,) = [one for one in records(world) if one.is_claimable]
    return one


async def test_an_idle_instance_that_is_leaving_is_ended_before_a_run_claims_it() -> None:
    async with a_world(settings=small()) as world:
        idle = await an_idle_one(world)
        await gets_notice(world, idle.id)
        done = await LivenessController(world.ports(), world.settings).run_once()
        assert done.left == (idle.id,)
        (ended,) = [one for one in records(world) if one.id == idle.id]
        assert ended.state is TERMINATED
        story = world.memory.tables.stories[idle.id]
        assert "is to be taken away" in next(line.why for line in story if line.step == "expire")


async def test_refresh_ends_it_too_and_a_dry_run_only_says_so() -> None:
    async with a_world(settings=small()) as world:
        idle = await an_idle_one(world)
        await gets_notice(world, idle.id)
        planned = await refresh(world.ports(), world.settings, dry_run=True)
        assert ("terminate", idle.id) in [(action.what, action.subject) for action in planned]
        assert idle.id in [one.id for one in records(world) if one.is_claimable]
        await refresh(world.ports(), world.settings)
        assert idle.id not in [one.id for one in records(world) if one.is_claimable]


async def test_a_runner_that_is_leaving_gets_no_new_job() -> None:
    async with a_world(settings=small()) as world:
        await provisioned(world, "run-1", 1)
        (runner,) = runners(world)
        await gets_notice(world, runner.id)
        ports = world.ports()
        await jobs.submit(ports, [JobRequest("run-1", ("true",))], by="a test")
        assert await jobs.take(ports, world.settings, direct_key(runner.id)) is None


async def test_it_finishes_its_job_and_a_run_replaces_it_meanwhile() -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(a_run(world, wanted("sleep 60", "sleep 60", "sleep 1"), 2))
        first, _ = await until_running(world, 2)
        await gets_notice(world, first.instance_id)
        while len(runners(world)) < 3:  # noqa: ASYNC110  a record wakes no process here
            await asyncio.sleep(0.1)
        ran, _ = await running
        assert [job.result for job in ran.jobs] == [Result.SUCCEEDED] * 3
        (kept,) = [job for job in ran.jobs if job.id == first.id]
        assert (kept.instance_id, kept.losses) == (first.instance_id, 0)
        (third,) = [job for job in ran.jobs if job.name == "job-2"]
        assert third.instance_id != first.instance_id


async def test_a_second_provision_of_the_run_tops_up_for_it_and_leaves_it_alone() -> None:
    async with a_world(settings=small()) as world:
        await provisioned(world, "run-1", 2)
        leaving, staying = runners(world)
        await gets_notice(world, leaving.id)
        outcome = await provisioned(world, "run-1", 2)
        assert leaving.id not in [member.instance.id for member in outcome.members]
        assert {leaving.id, staying.id} < {one.id for one in runners(world)}
