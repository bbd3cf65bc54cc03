"""A table of the test's own, made as refresh makes it, and records on it that a proxy watches."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bullpen.config import Aws
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.engines.aws.dynamodb.schema import table_definition
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.aws.errors import call
from bullpen.engines.aws.session import Cloud, opened
from bullpen.engines.system import SystemChance
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import JSON, Forward, ProxiedAnswer, ProxiedCall, Proxy


@asynccontextmanager
async def a_cloud_with_a_table(aws: Aws) -> AsyncIterator[Cloud]:
    """A cloud whose pool has its table, empty. It is dropped in the end: the engine keeps tables in memory."""
    async with opened(aws) as cloud:
        dynamodb = await cloud.client("dynamodb")
        await call(dynamodb, "create_table", **table_definition(aws.pool))
        try:
            yield cloud
        finally:
            await call(dynamodb, "delete_table", TableName=aws.pool)


@asynccontextmanager
async def a_table(aws: Aws) -> AsyncIterator[TableClient]:
    async with a_cloud_with_a_table(aws) as cloud:
        table = TableClient(cloud, SystemChance())
        await table.heed_mark()  # here, so that a test that counts requests counts only its own
        yield table


@dataclass(frozen=True, slots=True)
class CountedRecords:
    """Records behind a proxy, which counts their requests and lets them fail."""

    proxy: Proxy
    table: TableClient
    records: DynamoRecords

    def spent(self) -> dict[str, int]:
        """The requests since the last time."""
        counts = dict(self.proxy.counts)
        self.proxy.counts.clear()
        return counts


@asynccontextmanager
async def watched(engines: Engines, make_settings: MakeSettings) -> AsyncIterator[CountedRecords]:
    async with (
        Proxy(engines.dynamodb) as proxy,
        a_table(make_settings(endpoints={"dynamodb": proxy.url}).aws) as table,
    ):
        proxy.counts.clear()
        yield CountedRecords(proxy, table, DynamoRecords(table))
        proxy.heal()


@dataclass(frozen=True, slots=True)
class Says:
    """An answer that the engine itself would hardly give: this body (a text as it is), with this status."""

    body: Any
    status: int = 200

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        body = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return ProxiedAnswer(self.status, JSON, body.encode())


class Overhear:
    """No fault: it keeps what was asked, and answers with `answers` in turn as long as there are any."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answers = list(answers)

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        self.asked.append(json.loads(call.body))
        return (
            ProxiedAnswer(200, {}, json.dumps(self._answers.pop(0)).encode())
            if self._answers
            else await forward(call.body)
        )


def cancelled(*codes: str) -> Says:
    """A transaction that is cancelled, action by action for these reasons; `None` where there is none."""
    kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
    reasons = [{"Code": code} for code in codes]
    return Says({"__type": kind, "Message": "Transaction cancelled", "CancellationReasons": reasons}, 400)
