"""Settings in the pool's table: written by refresh, read by whoever is told nothing else."""

import pytest

from aws.stage import MakeSettings
from bullpen.engines.aws.dynamodb.items import text
from bullpen.engines.aws.ground.published import KEY, Published
from bullpen.engines.system import SystemClock
from bullpen.errors import Refused
from engines.aws.tables import a_table


@pytest.mark.real_loop
async def test_what_was_published_last_is_what_is_read(aws_settings: MakeSettings) -> None:
    async with a_table(aws_settings().aws) as table:
        published = Published(table, SystemClock())
        assert await published.read() == {}
        await published.write({"aws": {"image": "ami-1"}, "classes": {"large": {"cpu": 2}}})
        await published.write({"aws": {"image": "ami-2"}})
        assert await published.read() == {"aws": {"image": "ami-2"}}


@pytest.mark.real_loop
@pytest.mark.parametrize("content", ["no json", "[]"])
async def test_what_somebody_else_wrote_there_is_refused(aws_settings: MakeSettings, content: str) -> None:
    async with a_table(aws_settings().aws) as table:
        await table.put({**KEY, "content": text(content)})
        with pytest.raises(Refused, match="TYPE#Meta/ID#settings"):
            await Published(table, SystemClock()).read()
