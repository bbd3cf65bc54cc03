"""What DynamoRecords promises of the runs that it lists: a page costs what it shows, whatever else the pool has."""

import json

import pytest

from builders import release, running
from bullpen.engines.aws.dynamodb import records as module
from bullpen.engines.aws.dynamodb.items import key_of, text
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.model.instance import Instance
from conformance.landing import land
from engines.aws.counted import a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Forward, ProxiedAnswer, ProxiedCall

pytestmark = pytest.mark.real_loop


async def test_only_the_instances_of_the_page_are_read(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SERVING_PAGE", 2)
    async with a_bench(engines, aws_settings) as bench:
        records, read = DynamoRecords(bench.table), list[int]()
        for number in range(10):
            await land(records, running(f"i-{number}", f"run-{number // 2}"))

        async def noted(call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
            read.append(len(json.loads(call.body)["RequestItems"][bench.table.name]["Keys"]))
            return await forward(call.body)

        bench.proxy.fail("BatchGetItem", noted, times=None)
        bench.requests()
        assert list(await records.served_runs(1, after="run-1")) == ["run-2"]
        assert read == [2]
        assert bench.requests() == {"Query": 2, "BatchGetItem": 1}  # the run, and where the next one begins


async def test_a_page_is_filled_though_the_index_lags(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records = DynamoRecords(bench.table)
        left = await land(records, running("i-1", "run-1"))
        await land(records, running("i-2", "run-2"))
        entry = await bench.item(key_of(Instance, "i-1"))
        await records.apply(release(left))
        now = await bench.item(key_of(Instance, "i-1"))
        await bench.table.put({**now, **{name: entry[name] for name in ("dueKey", "dueSort")}})
        assert list(await records.served_runs(1)) == ["run-2"]


async def test_the_entry_of_a_run_names_its_instance(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await land(DynamoRecords(bench.table), running("i-1", "run-1"))
        item = await bench.item(key_of(Instance, "i-1"))
        assert (item["dueKey"], item["dueSort"]) == (text("SERVES"), text("run-1 i-1"))
