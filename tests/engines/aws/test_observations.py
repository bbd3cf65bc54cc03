"""What DynamoObservations promises beyond every Observations, and since when machines are missing."""

import pytest

from builders import NOW, later
from bullpen.engines.aws.dynamodb.items import raw_key, text
from bullpen.engines.aws.dynamodb.observations import DynamoObservations
from engines.aws.counted import a_bench
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Forward, ProxiedAnswer, ProxiedCall

pytestmark = pytest.mark.real_loop


async def test_when_two_processes_note_the_same_key_at_once_the_earlier_time_stays(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        observations = DynamoObservations(bench.table)

        async def overtaken(call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
            """Another process notes it between the look and the note of this one."""
            await observations.observe("ghosts", ["i-1"], NOW)
            return await forward(call.body)

        bench.proxy.fail("UpdateItem", overtaken)
        await observations.observe("ghosts", ["i-1"], later(1))
        assert await observations.observe("ghosts", ["i-1"], later(60)) == {"i-1": NOW}


@pytest.mark.parametrize("said", ["yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z"])
async def test_an_unreadable_note_is_replaced(engines: Engines, aws_settings: MakeSettings, said: str) -> None:
    async with a_bench(engines, aws_settings) as bench:
        observations = DynamoObservations(bench.table)
        await bench.table.put({**raw_key("Observation#ghosts", "i-1"), "since": text(said)})
        assert await observations.observe("ghosts", ["i-1"], NOW) == {"i-1": NOW}
        await observations.observe("ghosts", ["i-1"], later(1))
        assert await observations.observe("ghosts", ["i-1"], later(60)) == {"i-1": later(1)}


async def test_what_is_known_costs_one_request(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        observations = DynamoObservations(bench.table)
        await observations.observe("ghosts", ["i-1", "i-2"], NOW)
        bench.requests()
        await observations.observe("ghosts", ["i-1", "i-2"], later(60))
        assert bench.requests() == {"Query": 1}


async def test_the_first_time_that_a_machine_was_missed_is_kept_for_a_day(aws_settings: MakeSettings) -> None:
    async with a_table(aws_settings().aws) as table:
        assert await DynamoObservations(table).first_missing("i-1", NOW) == NOW
        assert await DynamoObservations(table).first_missing("i-1", later(90)) == NOW
        assert await DynamoObservations(table).first_missing("i-2", later(90)) == later(90)
        item = await table.get(raw_key("Gone", "i-1"))
        assert item is not None
        assert int(item["ttl"]["N"]) == int(later(90).timestamp()) + 86400
