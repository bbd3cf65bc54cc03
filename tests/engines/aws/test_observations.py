"""What DynamoObservations promises beyond every Observations."""

import pytest

from aws.java_engines import Engines
from aws.proxy import Answer, Call, Forward
from aws.stage import MakeSettings
from builders import NOW, later
from bullpen.engines.aws.observations import DynamoObservations
from engines.aws.counted import a_bench

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


async def test_what_is_known_costs_one_request(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        observations = DynamoObservations(bench.table)
        await observations.observe("ghosts", ["i-1", "i-2"], NOW)
        bench.requests()
        await observations.observe("ghosts", ["i-1", "i-2"], later(60))
        assert bench.requests() == {"Query": 1}
