"""What a job may ask for, which worker gets it, which result counts, and how a job without a result ends."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bullpen import jobs
from bullpen.config import Settings
from bullpen.errors import ConfigError, NotFound
from bullpen.jobs import JobRequest, StaleResult
from bullpen.jobs.log_tail import LONGEST_LINE, JobLogTail
from bullpen.liveness.heartbeat import record_heartbeat
from bullpen.liveness.schema import HeartbeatRequest, WorkerMetadata
from bullpen.model import job as steps
from bullpen.model import worker as workers
from bullpen.model.instance import RUNNING
from bullpen.model.job import FINISHED, QUEUED, Job, Result
from bullpen.model.job_policy import SPREAD_FOR, Assignment
from bullpen.operate import pause, resume
from bullpen.pool.lifecycle import expire_and_terminate
from bullpen.ports import Ports
from bullpen.server.long_poll import LongPoll
from bullpen.sim.world import World
from fixtures import a_world, machines, provisioned, records, released, small

ORDER = JobRequest("run-1", ("true",))


async def submitted(ports: Ports, count: int = 1, **changes: Any) -> list[Job]:
    return await jobs.submit(ports, [replace(ORDER, index=n, **changes) for n in range(count)], by="test")


async def a_worker(world: World, instance_id: str, capabilities: tuple[str, ...] = ()) -> str:
    """A worker of the instance, known by its first beat; the simulated agent is silenced, so that it takes nothing."""
    world.agents[instance_id].pause()
    key = f"{instance_id}/test"
    said = WorkerMetadata(capabilities=capabilities) if capabilities else None
    request = HeartbeatRequest(key=key, lease=60, metadata=said)
    await record_heartbeat(world.ports(), world.settings, request, instance_id=instance_id)
    return key


async def a_run(world: World, count: int = 1, **capabilities: tuple[str, ...]) -> list[str]:
    """The keys of the workers of a run."""
    outcome = await provisioned(world, "run-1", count)
    assert outcome.succeeded
    return [await a_worker(world, member.instance.id) for member in outcome.members]


async def taken(world: World, key: str) -> Job:
    job = await jobs.take(world.ports(), world.settings, key)
    assert job is not None
    return job


async def finished(world: World, job: Job, exit_code: int = 0, **changes: Any) -> Job | StaleResult:
    holder: dict[str, Any] = {"worker": job.worker, "epoch": job.epoch, "fence": job.fence, **changes}
    return await jobs.finish(world.ports(), world.settings, job.id, Assignment(**holder), exit_code=exit_code)


async def lose(world: World, job: Job) -> Job:
    """Requeue a job as the sweeper does."""
    now = world.clock.now()
    event = steps.Lost(at=now, by="test", worker=job.worker, epoch=job.epoch, fence=job.fence, not_before=now)
    (lost,) = await world.ports().records.apply(steps.reschedule(job, event))
    assert isinstance(lost, Job)
    return lost


# ----------------------------------------------------------------------------------------------------------- submitting


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run_id": ""}, "run-id ''"),
        ({"run_id": "a b"}, "run-id 'a b'"),
        ({"run_id": "x" * 129}, "run-id 'xxx"),
        ({"command": ()}, "command '0 words'"),
        ({"command": ("",)}, "command ''"),
        ({"command": ("x",) * 257}, "command '257 words'"),
        ({"command": ("x" * 40_000,)}, "command '40000 bytes'"),
        ({"command": ("a\0b",)}, "NUL"),
        ({"command": ("\udcff",)}, "not UTF-8"),
        ({"name": "x" * 129}, "name 'xxx"),
        ({"name": "a\nb"}, "name"),
        ({"timeout": 0.5}, "timeout 0.5"),
        ({"timeout": -1.0}, "timeout -1.0"),
        ({"timeout": float("nan")}, "timeout nan"),
        ({"timeout": 432001.0}, "timeout 432001.0"),
        ({"capability": "a b"}, "capability 'a b'"),
    ],
)
async def test_what_cannot_be_meant_is_refused_by_name_and_nothing_is_written(
    changes: dict[str, Any], said: str
) -> None:
    async with a_world() as world:
        with pytest.raises(ConfigError, match=said):
            await jobs.submit(world.ports(), [ORDER, replace(ORDER, **changes)], by="test")
        assert world.memory.tables.jobs == {}


async def test_jobs_are_queued_in_order_with_what_was_asked() -> None:
    async with a_world() as world:
        await submitted(world.ports(), 3, name="unit", timeout=9.0, capability="gpu", side_effects=True)
        found = await jobs.of_run(world.ports(), "run-1")
        assert [(job.index, job.state) for job in found] == [(0, QUEUED), (1, QUEUED), (2, QUEUED)]
        first = found[0]
        assert (first.name, first.timeout, first.capability, first.side_effects) == ("unit", 9.0, "gpu", True)


# --------------------------------------------------------------------------------------------------------------- taking


async def test_of_many_workers_each_gets_a_job_of_its_own() -> None:
    async with a_world(settings=small()) as world:
        keys = await a_run(world, 4)
        await submitted(world.ports(), 4)
        got = await asyncio.gather(*(taken(world, key) for key in keys))
        assert len({job.id for job in got}) == 4
        assert [(job.worker, job.epoch, job.fence) for job in got] == [(key, 1, 1) for key in keys]


async def test_of_many_workers_one_gets_the_only_job() -> None:
    async with a_world(settings=small()) as world:
        keys = await a_run(world, 4)
        await submitted(world.ports())
        got = await asyncio.gather(*(jobs.take(world.ports(), world.settings, key) for key in keys))
        assert len([job for job in got if job]) == 1


async def test_a_runner_that_has_had_one_leaves_the_others_to_runners_that_have_had_none() -> None:
    async with a_world(settings=small()) as world:
        fast, *slow = await a_run(world, 4)
        await submitted(world.ports(), 4)
        await finished(world, await taken(world, fast))
        assert await jobs.take(world.ports(), world.settings, fast) is None
        assert not (await LongPoll(world.ports()).read(fast.partition("/")[0])).has_job, "nor is one announced"
        assert (await LongPoll(world.ports()).read(slow[0].partition("/")[0])).has_job
        for key in slow:
            await taken(world, key)
        assert len({job.instance_id for job in await jobs.of_run(world.ports(), "run-1")}) == 4


async def test_where_more_jobs_wait_than_fresh_runners_a_fast_runner_goes_on() -> None:
    async with a_world(settings=small()) as world:
        fast, _ = await a_run(world, 2)
        await submitted(world.ports(), 3)
        await finished(world, await taken(world, fast))
        assert await jobs.take(world.ports(), world.settings, fast) is not None


async def test_a_job_that_is_submitted_later_goes_to_the_runner_that_asks_first() -> None:
    async with a_world(settings=small()) as world:
        fast, _ = await a_run(world, 2)
        await submitted(world.ports())
        await finished(world, await taken(world, fast))
        await asyncio.sleep(1)
        await submitted(world.ports())
        assert await jobs.take(world.ports(), world.settings, fast) is not None


async def test_a_job_is_not_left_to_a_runner_that_is_silent_or_does_not_take_it() -> None:
    async with a_world(settings=small()) as world:
        fast, _ = await a_run(world, 2)
        await submitted(world.ports(), 2)
        await finished(world, await taken(world, fast))
        assert await jobs.take(world.ports(), world.settings, fast) is None
        await asyncio.sleep(SPREAD_FOR)
        assert await jobs.take(world.ports(), world.settings, fast) is not None


async def test_a_job_is_not_left_to_a_runner_that_is_lost() -> None:
    settings = small()
    async with a_world(settings=settings) as world:
        fast, lost = await a_run(world, 2)
        await asyncio.sleep(settings.timings.lease + 1)
        await record_heartbeat(world.ports(), settings, HeartbeatRequest(key=fast, lease=60, token=1))
        await submitted(world.ports(), 2)
        await finished(world, await taken(world, fast))
        assert await jobs.take(world.ports(), settings, fast) is not None, f"{lost} is silent"


async def test_a_worker_gets_no_job_of_another_run() -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        await submitted(world.ports(), run_id="run-2")
        assert await jobs.take(world.ports(), world.settings, key) is None


async def test_an_unknown_worker_gets_nothing() -> None:
    async with a_world() as world:
        assert await jobs.take(world.ports(), world.settings, "i-1/unknown") is None


async def test_a_suspect_gets_nothing() -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        await submitted(world.ports())
        await asyncio.sleep(60)
        assert await jobs.take(world.ports(), world.settings, key) is None


async def test_a_worker_lost_between_look_and_write_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        await submitted(world.ports())
        ports = world.ports()
        apply = ports.records.apply

        async def lost_meanwhile(*changes: Any, checks: Any = ()) -> Any:
            worker = world.memory.tables.workers[key]
            assert worker.deadline is not None
            at = worker.deadline
            gone = workers.LeaseExpired(at=at, by="test", deadline=at, cleanup_at=at + timedelta(hours=1))
            await apply(workers.lose_lease(worker, gone))
            return await apply(*changes, checks=checks)

        monkeypatch.setattr(ports.records, "apply", lost_meanwhile)
        assert await jobs.take(ports, world.settings, key) is None
        assert [job.state for job in world.memory.tables.jobs.values()] == [QUEUED]


async def test_a_released_instance_gets_nothing() -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        (instance,) = records(world, RUNNING)
        world.agents[instance.id].resume()
        await released(world, "run-1")
        await submitted(world.ports())
        assert await jobs.take(world.ports(), world.settings, key) is None


async def test_a_job_goes_to_a_worker_that_can_do_it() -> None:
    async with a_world(settings=small()) as world:
        outcome = await provisioned(world, "run-1", 2)
        plain, able = [member.instance.id for member in outcome.members]
        keys = [await a_worker(world, plain), await a_worker(world, able, ("docker", "gpu"))]
        await submitted(world.ports(), capability="gpu")
        assert await jobs.take(world.ports(), world.settings, keys[0]) is None
        assert (await taken(world, keys[1])).worker == keys[1]


async def test_a_lost_job_goes_to_another_worker_while_there_is_one() -> None:
    async with a_world(settings=small()) as world:
        first, second = await a_run(world, 2)
        await submitted(world.ports())
        await lose(world, await taken(world, first))
        assert await jobs.take(world.ports(), world.settings, first) is None
        assert (await taken(world, second)).fence == 2


async def test_a_lost_job_may_return_to_the_last_worker_of_its_run() -> None:
    async with a_world(settings=small()) as world:
        (only,) = await a_run(world)
        await submitted(world.ports())
        await lose(world, await taken(world, only))
        assert (await taken(world, only)).fence == 2


async def test_jobs_that_ask_for_another_worker_hide_none_however_many_they_are() -> None:
    async with a_world(settings=small()) as world:
        first, _ = await a_run(world, 2)
        *_, plain = await submitted(world.ports(), 26)
        for job in [await taken(world, first) for _ in range(25)]:
            await lose(world, job)
        await submitted(world.ports(), 25, capability="gpu")
        assert (await taken(world, first)).id == plain.id


# --------------------------------------------------------------------------------------- which jobs an agent hears of


async def test_only_a_job_that_its_worker_can_do_is_announced_to_an_agent() -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        (instance,) = records(world, RUNNING)
        long_poll = LongPoll(world.ports())
        await submitted(world.ports(), 25, capability="gpu")
        assert not (await long_poll.read(instance.id)).has_job
        await submitted(world.ports())
        assert (await long_poll.read(instance.id)).has_job
        await taken(world, key)
        assert not (await long_poll.read(instance.id)).has_job


async def test_a_job_is_not_announced_before_its_time() -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        (instance,) = records(world, RUNNING)
        await submitted(world.ports())
        job = await taken(world, key)
        until = world.clock.now() + timedelta(seconds=5)
        event = steps.Lost(
            at=world.clock.now(), by="test", worker=key, epoch=job.epoch, fence=job.fence, not_before=until
        )
        await world.ports().records.apply(steps.reschedule(job, event))
        long_poll = LongPoll(world.ports())
        assert not (await long_poll.read(instance.id)).has_job
        await asyncio.sleep(5)
        assert (await long_poll.read(instance.id)).has_job, "alone in its run it may have it again"


async def test_a_lost_job_is_announced_to_the_other_workers_only() -> None:
    async with a_world(settings=small()) as world:
        first, second = await a_run(world, 2)
        await submitted(world.ports())
        await lose(world, await taken(world, first))
        long_poll = LongPoll(world.ports())
        announced = [(await long_poll.read(key.partition("/")[0])).has_job for key in (first, second)]
        assert announced == [False, True]


async def test_no_job_is_announced_to_an_agent_whose_lease_is_out() -> None:
    async with a_world(settings=small()) as world:
        await a_run(world)
        (instance,) = records(world, RUNNING)
        await submitted(world.ports())
        await asyncio.sleep(60)
        assert not (await LongPoll(world.ports()).read(instance.id)).has_job


# ------------------------------------------------------------------------------------------------------------ finishing


@pytest.mark.parametrize(("code", "result"), [(0, Result.SUCCEEDED), (3, Result.FAILED)])
async def test_the_current_holder_reports_the_result(code: int, result: Result) -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        await submitted(world.ports())
        done = await finished(world, await taken(world, key), code)
        assert isinstance(done, Job)
        assert (done.state, done.exit_code, done.result) == (FINISHED, code, result)


@pytest.mark.parametrize("wrong", [{"fence": 0}, {"fence": 2}, {"fence": 9}, {"worker": "i-9/x"}, {"epoch": 2}])
async def test_a_result_of_any_other_worker_is_stale_and_leaves_no_trace(wrong: dict[str, Any]) -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        await submitted(world.ports())
        job = await taken(world, key)
        await world.ports().logs.append(job.id, job.fence, 0, b"ours")
        assert isinstance(await finished(world, job, 0, **wrong), StaleResult)
        assert world.memory.tables.jobs[job.id].state is steps.RUNNING
        logs = [await world.ports().logs.read(job.id, fence, 0, 1000) for fence in (0, 1, 2, 9)]
        assert logs == [b"", b"ours", b"", b""]


@pytest.mark.parametrize(("printed", "is_noted"), [(b"old", True), (b"", False)])
async def test_a_late_result_is_noted_in_the_log_of_its_assignment_if_there_is_one(
    printed: bytes, is_noted: bool
) -> None:
    async with a_world(settings=small()) as world:
        first, second = await a_run(world, 2)
        await submitted(world.ports())
        old = await taken(world, first)
        await world.ports().logs.append(old.id, old.fence, 0, printed)
        await lose(world, old)
        new = await taken(world, second)
        assert isinstance(await finished(world, old, 7), StaleResult)
        assert (b"refused" in await world.ports().logs.read(old.id, old.fence, 0, 1000)) is is_noted
        assert await world.ports().logs.read(new.id, new.fence, 0, 1000) == b""


async def test_a_late_result_is_refused_and_that_of_the_new_run_stands() -> None:
    async with a_world(settings=small()) as world:
        first, second = await a_run(world, 2)
        await submitted(world.ports())
        old = await taken(world, first)
        await lose(world, old)
        new = await taken(world, second)
        assert isinstance(await finished(world, old, 7), StaleResult)
        assert isinstance(await finished(world, new, 0), Job)
        assert isinstance(await finished(world, old, 7), StaleResult)
        stored = world.memory.tables.jobs[old.id]
        assert (stored.exit_code, stored.worker) == (0, second)


async def test_the_same_result_twice_is_one_result() -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        await submitted(world.ports())
        job = await taken(world, key)
        first, again = await finished(world, job), await finished(world, job)
        assert first == again


async def test_a_result_for_a_job_that_never_was_is_not_found() -> None:
    async with a_world() as world:
        with pytest.raises(NotFound, match="j-none"):
            await jobs.finish(world.ports(), Settings(), "j-none", Assignment("w", 1, 1), exit_code=0)


# --------------------------------------------------------------------------------------------------------------- ending


async def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_asked_to_stop() -> None:
    async with a_world(settings=small()) as world:
        (key,) = await a_run(world)
        first, second = await submitted(world.ports(), 2)
        await taken(world, key)
        asked = await jobs.cancel(world.ports(), world.settings, first.id, by="test", why="no need")
        ended = await jobs.cancel(world.ports(), world.settings, second.id, by="test", why="no need")
        assert (asked.state, asked.cancelling, asked.reason) == (steps.RUNNING, True, "no need")
        assert (ended.state, ended.result, ended.reason) == (FINISHED, Result.CANCELLED, "no need")


async def test_cancelling_what_has_ended_changes_nothing() -> None:
    async with a_world(settings=small()) as world:
        (job,) = await submitted(world.ports())
        ended = await jobs.cancel(world.ports(), world.settings, job.id, by="test", why="no need")
        assert await jobs.cancel(world.ports(), world.settings, job.id, by="test", why="again") == ended


async def test_jobs_of_a_run_without_a_runner_fail_after_a_while_and_not_before() -> None:
    async with a_world(settings=small()) as world:
        (job,) = await submitted(world.ports())
        wait = world.settings.liveness.wait_for_runner
        assert await jobs.give_up_stranded(world.ports(), world.settings, by="test") == []
        await asyncio.sleep(wait - 1)
        assert await jobs.give_up_stranded(world.ports(), world.settings, by="test") == []
        await asyncio.sleep(1)
        assert await jobs.give_up_stranded(world.ports(), world.settings, by="test", dry_run=True) == [job.id]
        assert await jobs.give_up_stranded(world.ports(), world.settings, by="test") == [job.id]
        stored = world.memory.tables.jobs[job.id]
        assert (stored.result, "no runner" in stored.reason) == (Result.FAILED, True)


async def test_a_runner_that_comes_in_time_restarts_the_wait_of_its_run() -> None:
    async with a_world(settings=small()) as world:
        await submitted(world.ports(), capability="unheard-of")
        await jobs.give_up_stranded(world.ports(), world.settings, by="test")
        await provisioned(world, "run-1", 1)
        await asyncio.sleep(world.settings.liveness.wait_for_runner)
        assert await jobs.give_up_stranded(world.ports(), world.settings, by="test") == []


@pytest.mark.parametrize("resource_class", ["small", ""])
async def test_jobs_of_a_run_that_lost_its_runner_wait_for_the_resume_of_its_class(resource_class: str) -> None:
    async with a_world(settings=small()) as world:
        settings = world.settings
        await provisioned(world, "run-1", 1)
        (job,) = await submitted(world.ports(), capability="unheard-of")
        await pause(world.ports(), settings, resource_class, "the image is broken", operator="ada")
        await expire_and_terminate(world.ports(), settings, records(world), "a test ends it", by="test")
        assert machines(world) == []
        for _ in range(5):
            assert await jobs.give_up_stranded(world.ports(), settings, by="test") == []
            await asyncio.sleep(settings.liveness.wait_for_runner)
        await resume(world.ports(), settings, resource_class, operator="ada")
        assert await jobs.give_up_stranded(world.ports(), settings, by="test") == []
        await asyncio.sleep(settings.liveness.wait_for_runner)
        assert await jobs.give_up_stranded(world.ports(), settings, by="test") == [job.id]


async def test_a_pause_keeps_no_job_of_a_run_that_was_released_or_never_had_a_runner() -> None:
    async with a_world(settings=small()) as world:
        await provisioned(world, "run-1", 1)
        await released(world, "run-1")
        await submitted(world.ports(), capability="unheard-of")
        await submitted(world.ports(), run_id="run-2")
        await pause(world.ports(), world.settings, "", "the image is broken", operator="ada")
        await jobs.give_up_stranded(world.ports(), world.settings, by="test")
        await asyncio.sleep(world.settings.liveness.wait_for_runner)
        assert len(await jobs.give_up_stranded(world.ports(), world.settings, by="test")) == 2


# ------------------------------------------------------------------------------------------------------------ following


async def test_output_is_followed_by_lines_and_across_attempts() -> None:
    async with a_world() as world:
        ports = world.ports()
        job = Job("j-1", steps.RUNNING, 1, "run-1", ("true",), fence=1)
        follower = JobLogTail(ports.logs.read, "j-1")
        assert await follower.new_lines(replace(job, fence=0)) == []
        await ports.logs.append("j-1", 1, 0, b"one\ntw")
        assert await follower.new_lines(job) == ["one"]
        await ports.logs.append("j-1", 1, 6, b"o\nhalf")
        assert await follower.new_lines(job) == ["two"]
        await ports.logs.append("j-1", 2, 0, b"again\r\n\xff")
        lines = await follower.new_lines(replace(job, fence=2, state=FINISHED))
        assert [lines[0], *lines[2:]] == ["half", "again", "\ufffd"]
        assert "attempt 2" in lines[1]
        assert await follower.new_lines(replace(job, fence=2, state=FINISHED)) == []


async def test_a_line_without_an_end_is_broken_and_seen() -> None:
    async with a_world() as world:
        ports = world.ports()
        await ports.logs.append("j-1", 1, 0, b"x" * (LONGEST_LINE + 5))
        job = Job("j-1", steps.RUNNING, 1, "run-1", ("true",), fence=1)
        follower = JobLogTail(ports.logs.read, "j-1")
        assert await follower.new_lines(job) == ["x" * LONGEST_LINE]
        assert await follower.new_lines(replace(job, state=FINISHED)) == ["x" * 5]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["finished", "lost"])
async def test_what_is_over_is_read_whole_however_much_it_is(end: str) -> None:
    async with a_world() as world:
        ports = world.ports()
        content = b"".join(b"%d\n" % number for number in range(400_000))
        await ports.logs.append("j-1", 1, 0, content)
        job = Job("j-1", steps.RUNNING, 1, "run-1", ("true",), fence=1)
        follower = JobLogTail(ports.logs.read, "j-1")
        first = await follower.new_lines(job)
        assert 0 < len(first) < 400_000, "one that runs on does not keep the others waiting"
        after = replace(job, state=FINISHED) if end == "finished" else replace(job, fence=2)
        assert (first + await follower.new_lines(after))[:400_000] == [str(number) for number in range(400_000)]
