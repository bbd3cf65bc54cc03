"""`bullpen run` on virtual time: runners, jobs, their output, and everything given back."""

import asyncio
from dataclasses import replace

import pytest

from bullpen.errors import ConfigError, Unavailable
from bullpen.jobs import of_run, submit
from bullpen.model.job import FINISHED, Job, Result
from bullpen.provision import Request
from bullpen.run import RunOptions, exit_code_of, numbered, run
from bullpen.sources import Sent
from fixtures import a_world, machines, provisioned, records, released, small
from some_runs import ORDER, a_run, lose_runner, until_running, wanted

# -------------------------------------------------------------------------------------------------------- in good order


async def test_every_job_runs_once_its_output_is_passed_on_and_the_runners_are_back_on_offer() -> None:
    async with a_world(settings=small()) as world:
        ran, printed = await a_run(world, wanted("sleep 2", "sleep 1", "true"))
        assert ran.exit_code == 0
        assert [job.result for job in ran.jobs] == [Result.SUCCEEDED] * 3
        assert sorted(printed) == ["job-0 sleep 2", "job-1 sleep 1", "job-2 true"]
        assert len([one for one in records(world) if one.is_claimable]) == 2


async def test_an_upkeep_that_fails_after_the_jobs_takes_nothing_from_their_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def sent() -> Sent:
        return Sent("", 0, 0, 0, 0)

    async def failing(*_: object) -> int:
        raise Unavailable("the disk does not answer")

    monkeypatch.setattr("bullpen.run.tidy", failing)
    async with a_world(settings=small()) as world:
        ran, _ = await a_run(world, wanted("true"), count=1, files=sent)
        assert (ran.exit_code, [job.result for job in ran.jobs]) == (0, [Result.SUCCEEDED])


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


# -------------------------------------------------------------------------------------------------- retries, fail fast


async def test_a_job_that_failed_runs_again_and_the_last_result_counts() -> None:
    async with a_world(settings=small()) as world:
        ran, printed = await a_run(world, wanted("false", "true"), options=RunOptions(one_each=True, retries=2))
        (bad, good), earlier = ran.jobs, ran.earlier[ran.jobs[0].id]
        assert (bad.result, good.result, ran.exit_code) == (Result.FAILED, Result.SUCCEEDED, 1)
        assert [job.result for job in earlier] == [Result.FAILED] * 2
        assert (ran.attempts(bad), ran.attempts(good)) == (3, 1)
        assert [line for line in printed if line.startswith("job-0")] == [
            "job-0 false",
            "job-0 [failed; trying again, 2 left]",
            "job-0 false",
            "job-0 [failed; trying again, 1 left]",
            "job-0 false",
        ]
        assert len(records(world)) == 2, "no runner is launched for another try"


@pytest.mark.slow
async def test_another_try_does_not_wait_for_a_runner_that_is_at_work() -> None:
    async with a_world(settings=small()) as world:
        began = asyncio.get_running_loop().time()
        ran, _ = await a_run(world, wanted("false", "sleep 900"), options=RunOptions(retries=1))
        (earlier,) = ran.earlier[ran.jobs[0].id]
        assert ran.jobs[0].instance_id == earlier.instance_id
        assert ran.jobs[0].finished_at is not None
        assert ran.jobs[1].finished_at is not None
        assert ran.jobs[0].finished_at < ran.jobs[1].finished_at
        assert asyncio.get_running_loop().time() - began < 1000


async def test_a_job_that_timed_out_runs_again_on_another_runner_that_is_free() -> None:
    async with a_world(settings=small()) as world:
        requests = wanted("sleep 500", "true", timeout=10.0)
        ran, _ = await a_run(world, requests, count=2, options=RunOptions(one_each=True, retries=1))
        (earlier,) = ran.earlier[ran.jobs[0].id]
        assert earlier.result is Result.TIMED_OUT
        assert ran.jobs[0].instance_id == ran.jobs[1].instance_id != earlier.instance_id


async def test_the_only_runner_tries_again_itself() -> None:
    async with a_world(settings=small()) as world:
        ran, _ = await a_run(world, wanted("false"), count=1, options=RunOptions(one_each=True, retries=1))
        assert [job.instance_id for job in ran.earlier[ran.jobs[0].id]] == [ran.jobs[0].instance_id]


async def test_a_job_that_succeeded_or_lost_too_many_runners_is_not_tried_again() -> None:
    async with a_world(settings=small()) as world:
        run = a_run(world, wanted("sleep 1000", "true"), count=2, options=RunOptions(retries=3))
        running = asyncio.get_running_loop().create_task(run)
        for losses in range(3):
            (job,) = [one for one in await until_running(world, 1, losses) if one.command[0] == "sleep"]
            await lose_runner(world, job)
        ran, _ = await running
        assert (ran.exit_code, ran.earlier) == (1, {})


async def test_an_interrupted_run_tries_nothing_again() -> None:
    async with a_world(settings=small()) as world:
        stop = asyncio.Event()
        run = a_run(world, wanted("sleep 500"), count=1, stop=stop, options=RunOptions(retries=5))
        running = asyncio.get_running_loop().create_task(run)
        await until_running(world, 1)
        stop.set()
        ran, _ = await running
        assert (ran.exit_code, ran.earlier) == (130, {})


async def test_the_first_failure_cancels_what_runs_and_what_waits_and_its_exit_code_counts() -> None:
    async with a_world(settings=small()) as world:
        began = asyncio.get_running_loop().time()
        options = RunOptions(fail_fast=True)
        ran, _ = await a_run(world, wanted("sleep 500", "false", *["sleep 500"] * 3), count=2, options=options)
        assert [job.result for job in ran.jobs] == [Result.CANCELLED, Result.FAILED, *[Result.CANCELLED] * 3]
        assert ran.failed_first == ran.jobs[1]
        assert ran.exit_code == 1, "not 130, which is that of the cancelled ones"
        assert "job-1 failed, and the run fails fast" in {job.reason for job in ran.jobs}
        assert asyncio.get_running_loop().time() - began < 100
        assert len([one for one in records(world) if one.is_claimable]) == 2


async def test_a_failure_cancels_the_others_only_after_its_last_try() -> None:
    async with a_world(settings=small()) as world:
        options = RunOptions(fail_fast=True, retries=2)
        ran, _ = await a_run(world, wanted("false", "sleep 500"), options=options)
        assert len(ran.earlier[ran.jobs[0].id]) == 2
        assert ran.failed_first == ran.jobs[0]
        assert ran.jobs[1].result is Result.CANCELLED


async def test_of_each_try_is_known_when_it_started() -> None:
    async with a_world(settings=small()) as world:
        ran, _ = await a_run(world, wanted("sleep 5", "false"), options=RunOptions(retries=1))
        slow, bad = ran.jobs
        assert set(ran.started) == {slow.id, bad.id, ran.earlier[bad.id][0].id}
        assert slow.finished_at is not None
        assert 5 <= (slow.finished_at - ran.started[slow.id]).total_seconds() < 7


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
