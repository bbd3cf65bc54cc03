"""Since when something is so, in DynamoDB: an item for each key, under the kind `Observation#<topic>` for what refresh
saw, and `Gone` for machines that EC2 did not know when they were to be ended.

Two processes that observe at once may note the same key twice: the earlier time stays.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import Item, moment, name_of, number, parse_moment, raw_id, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.model.ticket import parse_time
from bullpen.structured_log import get_logger

AT_ONCE = 16
"""Writes in flight: a zone that fails makes hundreds of notes, and no caller waits for them."""

OBSERVATIONS_LAST = 7 * 86400
"""Seconds after which a note goes by itself, once its topic is not observed any more."""

GONE = "Gone"
GONE_LASTS = 86400
"""Seconds: ids are not used again, and a process that owes the end of a machine asks within minutes."""

log = get_logger("bullpen.engines.aws")


class DynamoObservations:
    """`ports.Observations` on the table of a pool."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def observe(
        self, topic: str, keys: Sequence[str], now: datetime, *, remember: bool = True
    ) -> dict[str, datetime]:
        kind = f"Observation#{topic}"
        before = {raw_id(item): _since(item) for item in await self._table.walk(("PK", f"TYPE#{kind}")).all()}
        since = {key: before.get(key) or now for key in keys}
        if remember:
            turns = asyncio.Semaphore(AT_ONCE)

            async def write(key: str) -> None:
                async with turns:
                    if key in before:
                        await self._table.delete(raw_key(kind, key))
                    else:
                        await _noted(self._table, raw_key(kind, key), now, OBSERVATIONS_LAST)

            # A note that says nothing goes as well: the next look finds none, and makes its own.
            old = [key for key, at in before.items() if key not in since or at is None]
            await gather_or_cancel([write(key) for key in (*(key for key in since if key not in before), *old)])
        return since

    async def first_missing(self, instance_id: str, now: datetime) -> datetime:
        """Note that a machine is missing; since when it is, to all processes of the pool."""
        item = await _noted(self._table, raw_key(GONE, instance_id), now, GONE_LASTS)
        return parse_time(item["since"]["S"])


async def _noted(table: TableClient, key: Item, now: datetime, lasts: int) -> Item:
    expression = Expression()
    since, ttl = expression.name("since"), expression.name("ttl")
    first, last = expression.value(text(moment(now))), expression.value(number(int(now.timestamp()) + lasts))
    writes = f"SET {since} = if_not_exists({since}, {first}), {ttl} = {last}"
    return await table.update(expression.request(key, UpdateExpression=writes))


def _since(item: Item) -> datetime | None:
    try:
        return parse_moment(item["since"]["S"])
    except (KeyError, TypeError, ValueError) as exc:
        log.warning("item ignored: not written by Bullpen", item=name_of(item), error=repr(exc))
        return None
