"""Settings in the pool's table: written by refresh, read by processes that know only the pool."""

from datetime import UTC, datetime, timedelta

import pytest

from bullpen import __version__
from bullpen.engines.aws.dynamodb.items import text
from bullpen.engines.aws.infrastructure.shared_settings import KEY, Published
from bullpen.errors import Refused
from bullpen.settings import Publication
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.real_loop
async def test_the_last_published_settings_are_read(aws_settings: MakeSettings) -> None:
    async with a_table(aws_settings().aws) as table:
        published = Published(table)
        assert await published.read() == Publication()
        assert await published.write({"aws": {"image": "ami-1"}, "classes": {"large": {"cpu": 2}}}, NOON)
        assert await published.write({"aws": {"image": "ami-2"}}, NOON + timedelta(seconds=1))
        assert await published.read() == Publication({"aws": {"image": "ami-2"}}, __version__)
        assert not await published.write({"aws": {"image": "ami-1"}}, NOON), "a refresh that began earlier is too late"
        assert (await published.read()).document == {"aws": {"image": "ami-2"}}


@pytest.mark.real_loop
@pytest.mark.parametrize("content", ["no json", "[]"])
async def test_an_item_of_another_program_is_refused(aws_settings: MakeSettings, content: str) -> None:
    async with a_table(aws_settings().aws) as table:
        await table.put({**KEY, "content": text(content)})
        with pytest.raises(Refused, match="TYPE#Meta/ID#settings"):
            await Published(table).read()
