"""`/metrics` on a pool on AWS: the counts of the table, and the requests that were made of AWS."""

import pytest

from builders import on_offer, running
from bullpen.config import Settings
from bullpen.controllers import Service
from bullpen.ports import Ports
from bullpen.server.heartbeats import Heartbeats
from bullpen.server.metrics.exposition import Metrics
from bullpen.wiring import on_aws
from conformance.landing import land
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings
from server.metrics.scraped import Scraped, read

pytestmark = pytest.mark.real_loop


async def shown(ports: Ports, settings: Settings) -> Scraped:
    metrics = Metrics(ports, Service(ports, settings), Heartbeats(ports, settings), lambda: 0)
    return read(await metrics.answer(settings))


async def test_a_scrape_counts_the_table_and_the_requests_to_aws(aws_settings: MakeSettings) -> None:
    settings = aws_settings()
    async with a_table(settings.aws), on_aws(settings) as ports:
        for walk in (on_offer("i-1"), on_offer("i-2"), running("i-3")):
            await land(ports.records, walk)
        found = await shown(ports, settings)
        assert found.value("bullpen_store_up") == 1
        assert found.value("bullpen_instances", resource_class="small", state="idle") == 2
        assert found.value("bullpen_instances_claimable", resource_class="small") == 2
        assert found.value("bullpen_instances", resource_class="small", state="running") == 1
        asked = {one["call"] for one in found.labels("bullpen_engine_requests_total") if one["service"] == "dynamodb"}
        assert {"Query", "BatchGetItem"} < asked


async def test_a_pool_without_a_table_is_a_store_that_is_down(aws_settings: MakeSettings) -> None:
    settings = aws_settings()
    async with on_aws(settings) as ports:
        found = await shown(ports, settings)
        assert found.value("bullpen_store_up") == 0
        assert found.labels("bullpen_instances") == []
        assert found.total("bullpen_engine_requests_total") > 0
