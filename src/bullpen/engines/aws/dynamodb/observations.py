"""What refresh saw before, in DynamoDB: an item for each key under the kind `Observation#<topic>`, since when.

Two processes that observe at once may note the same key twice: the earlier time stays.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import Item, moment, number, parse_moment, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.structured_log import get_logger

AT_ONCE = 16
"""Writes in flight: a zone that fails makes hundreds of notes, and no caller waits for them."""

OBSERVATIONS_LAST = 7 * 86400
"""Seconds after which a note goes by itself, once its topic is not observed any more."""

log = get_logger("bullpen.engines.aws")


class DynamoObservations:
    """`ports.Observations` on the table of a pool."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def observe(
        self, topic: str, keys: Sequence[str], now: datetime, *, remember: bool = True
    ) -> dict[str, datetime]:
        noted = await self._table.walk(("PK", f"TYPE#{_kind(topic)}")).all()
        before = {str(item["SK"]["S"]).removeprefix("ID#"): _since(item) for item in noted}
        since = {key: before.get(key) or now for key in keys}
        if remember:
            turns = asyncio.Semaphore(AT_ONCE)
            news = [self._note(topic, key, now, turns) for key in since if key not in before]
            # A note that says nothing goes as well: the next look finds none, and makes its own.
            old = [key for key, at in before.items() if key not in since or at is None]
            await gather_or_cancel([*news, *(self._forget(topic, key, turns) for key in old)])
        return since

    async def _note(self, topic: str, key: str, now: datetime, turns: asyncio.Semaphore) -> None:
        expression = Expression()
        since, ttl = expression.name("since"), expression.name("ttl")
        first, last = text(moment(now)), number(int(now.timestamp()) + OBSERVATIONS_LAST)
        writes = f"SET {since} = if_not_exists({since}, {expression.value(first)}), {ttl} = {expression.value(last)}"
        async with turns:
            await self._table.update(expression.request(raw_key(_kind(topic), key), UpdateExpression=writes))

    async def _forget(self, topic: str, key: str, turns: asyncio.Semaphore) -> None:
        async with turns:
            await self._table.delete(raw_key(_kind(topic), key))


def _since(item: Item) -> datetime | None:
    try:
        return parse_moment(item["since"]["S"])
    except (KeyError, TypeError, ValueError) as exc:
        name = f"{item['PK']['S']} / {item['SK']['S']}"
        log.warning("item ignored: not written by Bullpen", item=name, error=repr(exc))
        return None


def _kind(topic: str) -> str:
    return f"Observation#{topic}"
