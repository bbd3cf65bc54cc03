"""What DynamoJobs promises beyond every Jobs: nothing hides behind a page, and a long queue costs little."""

import asyncio

import pytest

from aws.java_engines import Engines
from aws.stage import MakeSettings
from builders import later
from bullpen.engines.aws.jobs import PAGE, DynamoJobs
from bullpen.engines.aws.records import DynamoRecords
from bullpen.errors import Conflict
from conformance.leases import KEY, assign, finish, reschedule, submit
from engines.aws.counted import a_bench

pytestmark = pytest.mark.real_loop


async def test_a_job_behind_pages_of_others_that_nobody_can_do_is_found(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, jobs = DynamoRecords(bench.table), DynamoJobs(bench.table)
        await records.apply_each([submit(f"j-{n:03}", capability="gpu") for n in range(PAGE + 20)])
        await records.apply(submit("j-any", at=later(1)))
        bench.requests()
        assert [job.id for job in await jobs.queued("run-1", later(9), 1, ())] == ["j-any"]
        assert bench.requests() == {"Query": 2, "BatchGetItem": 2}


async def test_a_run_with_a_long_queue_costs_no_more_than_its_page(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, jobs = DynamoRecords(bench.table), DynamoJobs(bench.table)
        await records.apply_each([submit(f"j-{n:03}", "run-1") for n in range(PAGE + 20)])
        await records.apply_each([submit(f"j-{run}", run) for run in ("run-2", "run-10")])
        bench.requests()
        assert await jobs.waiting_runs(10) == ["run-1", "run-10", "run-2"]
        assert bench.requests() == {"Query": 3}  # a page, the rest, and that there is no more


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
