"""Since when machines are missing: the first time told stays, whoever asks."""

import pytest

from builders import NOW, later
from bullpen.engines.aws.dynamodb.items import raw_key
from bullpen.engines.aws.dynamodb.missing_since import GoneNotes
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings


@pytest.mark.real_loop
async def test_the_first_time_that_a_machine_was_missed_is_kept_for_a_day(aws_settings: MakeSettings) -> None:
    async with a_table(aws_settings().aws) as table:
        assert await GoneNotes(table).first_missing("i-1", NOW) == NOW
        assert await GoneNotes(table).first_missing("i-1", later(90)) == NOW
        assert await GoneNotes(table).first_missing("i-2", later(90)) == later(90)
        item = await table.get(raw_key("Gone", "i-1"))
        assert item is not None
        assert int(item["ttl"]["N"]) == int(later(90).timestamp()) + 86400
