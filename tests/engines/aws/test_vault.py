"""What DynamoVault promises beyond every Vault: one item of a kind of its own, which goes when it is over."""

import pytest

from builders import NOW
from bullpen.engines.aws.dynamodb.items import Item, moment, number, raw_key, text
from bullpen.engines.aws.dynamodb.vault import DynamoVault
from bullpen.engines.aws.infrastructure.policies import SECRET
from bullpen.engines.system import SystemClock
from bullpen.ports import Secret
from engines.aws.counted import a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines

pytestmark = pytest.mark.real_loop

KEY = raw_key(SECRET, "github")


async def test_a_secret_lies_where_policies_can_tell_it_from_everything_else(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await DynamoVault(bench.table, SystemClock()).write("github", Secret("hidden", NOW))
        said = {"content": text("hidden"), "expiresAt": text(moment(NOW)), "ttl": number(int(NOW.timestamp()))}
        assert await bench.table.get(KEY) == KEY | said


@pytest.mark.parametrize("spoilt", [{}, {"content": text("hidden")}, {"content": number(1), "expiresAt": text("soon")}])
async def test_an_item_that_holds_no_secret_counts_as_none_and_is_not_shown(
    engines: Engines, aws_settings: MakeSettings, spoilt: Item, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.table.put(KEY | spoilt)
        assert await DynamoVault(bench.table, SystemClock()).read("github") is None
        assert "not written by Bullpen" in caplog.text
        assert "TYPE#Secret / ID#github" in caplog.text
        assert "hidden" not in caplog.text
