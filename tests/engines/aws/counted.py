"""A table of the test's own behind a proxy that counts, and that fails on request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.agent.aws.dynamodb import DynamoDB
from bullpen.agent.config import Config
from bullpen.agent.store.dynamodb import DynamoStore
from bullpen.engines.aws.dynamodb.items import Item
from bullpen.engines.aws.dynamodb.table import TableClient
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Proxy


def an_agent(table: str, endpoint: str, instance_id: str, lease: float = 15.0) -> DynamoStore:
    """An agent that writes into the table by itself. Its clock is years behind that of the tests."""
    nowhere = Path("/nonexistent")
    config = Config(
        instance_id, nowhere, nowhere, 5.0, 60.0, 60.0, "", 1.0, (), lease=lease, table=table, domain="zone-a"
    )
    client = DynamoDB("eu-central-1", lambda: ("key", "not-a-secret", ""), endpoint)
    return DynamoStore(config, client, lambda: None)


@dataclass
class CountedTable:
    table: TableClient
    proxy: Proxy
    endpoint: str  # of the engine itself: a blocking caller would wait for the proxy, which waits for the caller
    agents: list[DynamoStore] = field(default_factory=list)

    def requests(self) -> dict[str, int]:
        """Those since the last call."""
        counted = dict(self.proxy.counts)
        self.proxy.counts.clear()
        return counted

    def agent(self, instance_id: str = "i-1", lease: float = 15.0) -> DynamoStore:
        self.agents.append(an_agent(self.table.name, self.endpoint, instance_id, lease))
        return self.agents[-1]

    async def item(self, key: Item) -> Item:
        found = await self.table.get(key)
        assert found is not None
        return found


@asynccontextmanager
async def a_bench(engines: Engines, make_settings: MakeSettings) -> AsyncIterator[CountedTable]:
    async with (
        Proxy(engines.dynamodb) as proxy,
        a_table(make_settings(endpoints={"dynamodb": proxy.url}).aws) as table,
    ):
        proxy.counts.clear()
        bench = CountedTable(table, proxy, engines.dynamodb)
        yield bench
        for agent in bench.agents:
            agent.close()
