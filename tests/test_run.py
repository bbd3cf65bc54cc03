"""`bullpen run` on virtual time: runners, jobs, their output, losses and replacements, and everything given back."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bullpen.errors import ConfigError
from bullpen.jobs import JobRequest, of_run, submit
from bullpen.model.instance import RUNNING
from bullpen.model.job import FINISHED, Job, Result
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.ticket import UsageClass
from bullpen.provision import Request
from bullpen.run import RunOutcome, exit_code_of, numbered, run
from bullpen.sim.world import World
from fixtures import a_world, machines, provisioned, records, released, small

ORDER = JobRequest("run-1", ("true",))


def wanted(*commands: str, **changes: Any) -> list[JobRequest]:
    return [
        replace(ORDER, command=tuple(words.split()), name=f"job-{n}", index=n, **changes)
        for n, words in enumerate(commands)
    ]


async def a_run(
    world: World, requests: list[JobRequest], count: int = 2, stop: asyncio.Event | None = None, **needs: Any
) -> tuple[RunOutcome, list[str]]:
    printed: list[str] = []
    partial = needs.pop("allow_partial", False)
    asked = world.settings.requirements("small", **needs)
    request = Request("run-1", count, asked, world.settings.timings.max_runtime, allow_partial=partial)
    ran = await run(
        world.ports(),
        world.settings,
        request,
        requests,
        stop=stop or asyncio.Event(),
        write=lambda job, line: printed.append(f"{job.name} {line}"),
    )
    return ran, printed


async def until_running(world: World, count: int, losses: int = 0) -> list[Job]:
    """The jobs that run and were lost so often, once there are so many."""
    while True:
        running = [j for j in world.memory.tables.jobs.values() if j.state is JOB_RUNNING and j.losses == losses]
        if len(running) >= count:
            return running
        await asyncio.sleep(0.1)


# -------------------------------------------------------------------------------------------------------- in good order


async def test_every_job_runs_once_its_output_is_passed_on_and_the_runners_are_back_on_offer() -> None:
    async with a_world(settings=small()) as world:
        ran, printed = await a_run(world, wanted("sleep 2", "sleep 1", "true"))
        assert ran.exit_code == 0
        assert [job.result for job in ran.jobs] == [Result.SUCCEEDED] * 3
        assert sorted(printed) == ["job-0 sleep 2", "job-1 sleep 1", "job-2 true"]
        assert len([one for one in records(world) if one.is_claimable]) == 2


async def test_jobs_wait_for_a_free_runner() -> None:
    async with a_world(settings=small()) as world:
        ran, _ = await a_run(world, wanted(*["sleep 5"] * 4), count=2)
        assert len({job.instance_id for job in ran.jobs}) == 2


async def test_without_runners_no_job_is_written() -> None:
    async with a_world(settings=small(), capacity=1) as world:
        ran, _ = await a_run(world, wanted("true"), count=2)
        assert not ran.outcome.succeeded
        assert ran.exit_code == 1
        assert await of_run(world.ports(), "run-1") == []


async def test_a_bad_job_is_refused_before_anything_is_acquired() -> None:
    async with a_world(settings=small()) as world:
        with pytest.raises(Exception, match="timeout"):
            await a_run(world, wanted("true", timeout=0.5))
        assert machines(world) == []


async def test_a_capability_that_no_runner_has_is_refused_before_anything_is_acquired() -> None:
    async with a_world(settings=small()) as world:
        with pytest.raises(ConfigError, match=r"capability 'gpu': no runner has it"):
            await a_run(world, wanted("true", capability="gpu"))
        assert machines(world) == []


def test_a_command_without_a_file_is_numbered() -> None:
    made = numbered("run-1", ("echo", "{index}/{index}"), 2, replace(ORDER, timeout=5.0))
    assert [(job.command, job.name, job.index, job.timeout) for job in made] == [
        (("echo", "0/0"), "job-0", 0, 5.0),
        (("echo", "1/1"), "job-1", 1, 5.0),
    ]


@pytest.mark.parametrize(
    ("result", "code", "shown"),
    [
        (Result.SUCCEEDED, 0, 0),
        (Result.FAILED, 3, 3),
        (Result.FAILED, -9, 137),
        (Result.FAILED, None, 1),
        (Result.TIMED_OUT, -9, 124),
        (Result.CANCELLED, None, 130),
    ],
)
def test_an_exit_code_is_what_a_shell_would_say(result: Result, code: int | None, shown: int) -> None:
    job = Job("j-1", FINISHED, 1, "run-1", ("true",), result=result, exit_code=code)
    assert exit_code_of(job) == shown


async def test_the_worst_exit_code_counts() -> None:
    async with a_world(settings=small()) as world:
        ran, _ = await a_run(world, wanted("true", "false", "true"))
        assert ran.exit_code == 1


async def test_a_job_that_takes_too_long_is_ended() -> None:
    async with a_world(settings=small()) as world:
        ran, _ = await a_run(world, wanted("sleep 500", timeout=10.0))
        assert (ran.jobs[0].result, ran.exit_code) == (Result.TIMED_OUT, 124)


# --------------------------------------------------------------------------------------------------------------- losses


async def test_a_lost_runner_is_replaced_and_its_job_runs_again_with_one_result() -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(a_run(world, wanted("sleep 300", "sleep 300"), count=2))
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


async def test_one_lost_runner_of_three_that_came_on_demand_instead_of_spot_gets_one_replacement() -> None:
    async with a_world(settings=small(spot_fallback=True)) as world:
        world.memory.yard.spot_capacity = 0
        run = a_run(world, wanted(*["sleep 300"] * 3), count=3, usage_class=UsageClass.SPOT)
        running = asyncio.get_running_loop().create_task(run)
        victim, *_ = await until_running(world, 3)
        world.agents[victim.instance_id].kill()
        world.memory.yard.end(victim.instance_id)
        ran, _ = await running
        assert ran.exit_code == 0
        assert len(records(world)) == 4


@pytest.mark.parametrize("allow_partial", [False, True])
async def test_a_replacement_that_cannot_be_launched_is_asked_for_again_after_a_while(allow_partial: bool) -> None:
    async with a_world(settings=small()) as world:
        run = a_run(world, wanted("sleep 300", "sleep 300"), count=2, allow_partial=allow_partial)
        running = asyncio.get_running_loop().create_task(run)
        victim, _ = await until_running(world, 2)
        world.memory.yard.capacity = 0
        world.agents[victim.instance_id].kill()
        world.memory.yard.end(victim.instance_id)
        await asyncio.sleep(100)
        asked = len(world.memory.yard.answers)
        await asyncio.sleep(100)
        assert 15 <= len(world.memory.yard.answers) - asked <= 20, "every 5 s and a little"
        world.memory.yard.capacity = 10
        ran, _ = await running
        assert ran.exit_code == 0


async def test_a_mute_runner_is_kept_for_its_return_but_not_counted_and_ended_with_the_run() -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(a_run(world, wanted("sleep 200"), count=1))
        (victim,) = await until_running(world, 1)
        world.agents[victim.instance_id].pause()
        ran, _ = await running
        assert ran.exit_code == 0
        assert ran.jobs[0].instance_id != victim.instance_id
        assert victim.instance_id not in machines(world)
        assert ran.released is not None
        assert victim.instance_id not in ran.released.terminated, "the release did not wait for it"


async def test_a_job_that_loses_three_runners_fails_with_the_reason() -> None:
    async with a_world(settings=small()) as world:
        running = asyncio.get_running_loop().create_task(a_run(world, wanted("sleep 1000"), count=1))
        for losses in range(3):
            (job,) = await until_running(world, 1, losses)
            world.agents[job.instance_id].kill()
            world.memory.yard.end(job.instance_id)
        ran, _ = await running
        assert (ran.exit_code, ran.jobs[0].result) == (1, Result.FAILED)
        assert "3" in ran.jobs[0].reason


# ---------------------------------------------------------------------------------------------------------- interrupted


async def test_an_interrupted_run_cancels_its_jobs_gives_everything_back_and_says_130() -> None:
    async with a_world(settings=small()) as world:
        stop = asyncio.Event()
        running = asyncio.get_running_loop().create_task(a_run(world, wanted(*["sleep 500"] * 3), count=2, stop=stop))
        await until_running(world, 2)
        stop.set()
        ran, _ = await running
        assert ran.exit_code == 130
        assert [job.result for job in ran.jobs] == [Result.CANCELLED] * 3
        assert len([one for one in records(world) if one.is_claimable]) == 2


async def test_after_a_killed_run_a_release_gives_everything_back_and_ends_its_jobs() -> None:
    async with a_world(settings=small()) as world:
        request = Request("run-1", 2, world.settings.requirements("small"), world.settings.timings.max_runtime)
        process, _ = world.start(
            "run",
            lambda ports: run(ports, world.settings, request, wanted(*["sleep 500"] * 4), stop=asyncio.Event()),
        )
        await until_running(world, 2)
        process.kill()
        await released(world, "run-1")
        found = await of_run(world.ports(), "run-1")
        assert [(job.state, job.result, job.reason) for job in found] == [
            (FINISHED, Result.CANCELLED, job.reason) for job in found
        ]
        assert all("released" in job.reason or job.exit_code == -9 for job in found)
        assert len([one for one in records(world) if one.is_claimable]) == 2


async def test_a_release_ends_a_job_whose_runner_died_unobserved() -> None:
    async with a_world(settings=small()) as world:
        await provisioned(world, "run-1", 1)
        (job,) = await submit(world.ports(), wanted("sleep 500"), by="test")
        (victim,) = await until_running(world, 1)
        world.agents[victim.instance_id].kill()
        await released(world, "run-1")
        stored = world.memory.tables.jobs[job.id]
        assert (stored.state, stored.result, stored.reason) == (FINISHED, Result.CANCELLED, "its run was released")


async def test_a_release_cancels_waiting_jobs_before_it_waits_for_any_runner() -> None:
    async with a_world(settings=small()) as world:
        await provisioned(world, "run-1", 1)
        await submit(world.ports(), wanted("sleep 500", "true"), by="test")
        (running,) = await until_running(world, 1)
        world.agents[running.instance_id].pause()
        process, _ = world.start("release", lambda ports: released(world, "run-1", ports))
        await asyncio.sleep(5)
        process.kill()
        assert [job.result for job in await of_run(world.ports(), "run-1")] == [Result.NONE, Result.CANCELLED]
