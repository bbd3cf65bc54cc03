"""What DynamoJobs promises beyond every Jobs: nothing hides behind a page, and a long queue costs little."""

import asyncio
import json

import pytest

from builders import later
from bullpen.engines.aws.dynamodb.expressions import held_kind
from bullpen.engines.aws.dynamodb.items import key_of, raw_key, text
from bullpen.engines.aws.dynamodb.jobs import PAGE, DynamoJobs
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.errors import Conflict
from bullpen.model.job import Job
from conformance.leases import KEY, assign, finish, reschedule, submit
from engines.aws.counted import a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Forward, ProxiedAnswer, ProxiedCall

pytestmark = pytest.mark.real_loop


async def test_a_job_behind_pages_of_unsuitable_jobs_is_found(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, jobs = DynamoRecords(bench.table), DynamoJobs(bench.table)
        await records.apply_each([submit(f"j-{n:03}", capability="gpu") for n in range(PAGE + 20)])
        await records.apply(submit("j-any", at=later(1)))
        bench.requests()
        assert [job.id for job in await jobs.queued("run-1", later(9), 1, ())] == ["j-any"]
        assert bench.requests() == {"Query": 3, "BatchGetItem": 3}  # as many as asked for, and then whole pages


async def test_no_more_jobs_of_a_long_queue_are_read_than_asked_for(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, jobs = DynamoRecords(bench.table), DynamoJobs(bench.table)
        await records.apply_each([submit(f"j-{n:03}") for n in range(30)])
        read: list[int] = []

        async def noted(call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
            read.append(len(json.loads(call.body)["RequestItems"][bench.table.name]["Keys"]))
            return await forward(call.body)

        bench.proxy.fail("BatchGetItem", noted, times=None)
        assert len(await jobs.queued("run-1", later(9), 7)) == 7
        assert read == [7]


async def test_a_run_with_a_long_queue_costs_no_more_than_its_page(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, jobs = DynamoRecords(bench.table), DynamoJobs(bench.table)
        await records.apply_each([submit(f"j-{n:03}", "run-1") for n in range(PAGE + 20)])
        await records.apply_each([submit(f"j-{run}", run) for run in ("run-2", "run-10")])
        bench.requests()
        assert await jobs.waiting_runs(10) == ["run-1", "run-10", "run-2"]
        assert bench.requests() == {"Query": 2}  # a page, and the rest


async def test_an_unreadable_job_is_left_out_of_an_answer(
    engines: Engines, aws_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, jobs = DynamoRecords(bench.table), DynamoJobs(bench.table)
        await records.apply(submit("j-1"), submit("j-2"))
        item = await bench.item(key_of(Job, "j-1"))
        await bench.table.put({**item, "state": text("paused")})
        assert (await jobs.jobs(["j-1", "j-2"])).keys() == {"j-2"}
        assert "TYPE#Job / ID#j-1" in caplog.text


@pytest.mark.parametrize("marker", ["000000000001", "000000000001#", "0-none-of-ours"])
async def test_a_marker_of_another_program_hides_no_job_that_is_held(
    engines: Engines, aws_settings: MakeSettings, caplog: pytest.LogCaptureFixture, marker: str
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, jobs = DynamoRecords(bench.table), DynamoJobs(bench.table)
        (queued,) = await records.apply(submit("j-1"))
        (held,) = await records.apply(assign(queued))
        await bench.table.put(raw_key(held_kind(KEY), marker))
        assert await jobs.held(KEY, 1, 1) == [held]
        assert f"ID#{marker}" in caplog.text
        assert "not written by Bullpen" in caplog.text


async def test_a_worker_holds_a_job_exactly_while_the_job_says_so(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, jobs = DynamoRecords(bench.table), DynamoJobs(bench.table)
        queued = await records.apply(*(submit(f"j-{n}") for n in range(6)))
        held = await records.apply(*map(assign, queued))
        ends = [finish(job, later(60)) for job in held[:3]] + [reschedule(job) for job in held[1:6]]
        outcomes = await asyncio.gather(*map(records.apply, ends), return_exceptions=True)
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 2  # two were finished and given away
        assert await jobs.held(KEY, 9, 10) == []
        assert await bench.table.walk(("PK", f"TYPE#Held#{KEY}")).all() == []
