"""What DynamoObservations promises beyond every Observations."""

import pytest

from builders import NOW, later
from bullpen.engines.aws.dynamodb.items import raw_key, text
from bullpen.engines.aws.dynamodb.observations import DynamoObservations
from engines.aws.counted import a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Answer, Call, Forward

pytestmark = pytest.mark.real_loop


async def test_of_two_who_note_the_same_at_once_the_first_one_s_time_stays(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        observations = DynamoObservations(bench.table)

        async def overtaken(call: Call, forward: Forward) -> Answer | None:
            """Somebody else notes it between our look and our note."""
            await observations.observe("ghosts", ["i-1"], NOW)
            return await forward(call.body)

        bench.proxy.fail("UpdateItem", overtaken)
        await observations.observe("ghosts", ["i-1"], later(1))
        assert await observations.observe("ghosts", ["i-1"], later(60)) == {"i-1": NOW}


@pytest.mark.parametrize("said", ["yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z"])
async def test_a_note_that_says_nothing_is_made_anew(engines: Engines, aws_settings: MakeSettings, said: str) -> None:
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
