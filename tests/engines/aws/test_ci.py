"""What DynamoCI promises beyond every CI: a registration is written under the condition that its instance is whose."""

import asyncio
from typing import Any

import pytest

from builders import claimed, later, on_offer, running
from bullpen.engines.aws.dynamodb.ci import AT_ONCE, DynamoCI
from bullpen.engines.aws.dynamodb.items import raw_key, text
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.ports import Registration, Removal
from conformance.landing import land
from conformance.leases import assigned, finish
from engines.aws.counted import a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Drop, Forward, ProxiedAnswer, ProxiedCall

pytestmark = pytest.mark.real_loop


@pytest.mark.parametrize("lie", [{"name": "i-2"}, {"label": "run-2"}, {"round": "another"}])
async def test_an_instance_registers_only_for_its_own_run_and_round(
    engines: Engines, aws_settings: MakeSettings, lie: dict[str, Any]
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        ci, instance = DynamoCI(bench.table), await land(DynamoRecords(bench.table), claimed("i-1"))
        truth = {"name": "i-1", "label": "run-1", "round": instance.round}
        assert None is await ci.register(**{**truth, **lie})
        assert await ci.registrations() == []
        assert await ci.register(**truth) is not None
        assert await ci.registrations() == [Registration("i-1", "run-1", busy=False)]


async def test_an_instance_on_offer_cannot_register(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        instance = await land(DynamoRecords(bench.table), on_offer("i-1"))
        assert not await DynamoCI(bench.table).register("i-1", "", instance.round)


async def test_a_registration_whose_answer_was_lost_stands(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        ci, instance = DynamoCI(bench.table), await land(DynamoRecords(bench.table), claimed("i-1"))
        bench.proxy.fail("TransactWriteItems", Drop())
        assert await ci.register("i-1", "run-1", instance.round)
        bench.proxy.fail("TransactWriteItems", Drop())
        assert await ci.remove("i-1") is Removal.REMOVED
        assert await ci.registrations() == []


async def test_a_runner_with_a_running_job_is_busy_until_the_job_has_ended(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        ci, records = DynamoCI(bench.table), DynamoRecords(bench.table)
        instance = await land(records, running("i-1"))
        await ci.register("i-1", "run-1", instance.round)
        job = await assigned(records)
        assert await ci.registrations() == [Registration("i-1", "run-1", busy=True)]
        assert await ci.remove("i-1") is Removal.BUSY
        await records.apply(finish(job, later(60)))
        assert await ci.remove("i-1") is Removal.REMOVED


async def test_one_that_registers_again_while_it_is_removed_is_looked_at_again(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        ci, agent = DynamoCI(bench.table), raw_key("Registration", "i-1")
        await bench.table.put({**agent, "label": {"S": "run-1"}, "round": {"S": "old"}})
        seen = await bench.item(agent)
        busy = {**agent, "label": {"S": "run-1"}, "round": {"S": "new"}, "busy": {"BOOL": True}}

        async def look(key: dict[str, Any]) -> dict[str, Any]:
            """It begins a job right after the first look."""
            bench.table.get = type(bench.table).get.__get__(bench.table)  # type: ignore[method-assign]
            await bench.table.put(busy)
            return seen

        bench.table.get = look  # type: ignore[method-assign]
        assert await ci.remove("i-1") is Removal.BUSY
        assert await bench.item(agent) == busy


async def test_many_runs_are_asked_for_their_jobs_at_once(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        for n in range(AT_ONCE):
            await bench.table.put({**raw_key("Registration", f"i-{n:02}"), "label": text(f"run-{n}")})
        all_asked = asyncio.Barrier(AT_ONCE)

        async def together(call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
            await all_asked.wait()
            return await forward(call.body)

        bench.proxy.fail("Query", together, after=1, times=None)
        async with asyncio.timeout(60):  # fewer at once would wait for each other for ever
            assert len(await DynamoCI(bench.table).registrations()) == AT_ONCE
