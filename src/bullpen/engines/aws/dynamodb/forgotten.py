"""The highest epoch of all workers that DynamoDB may have removed: one item, so that no key has an old epoch again.

DynamoDB removes a tombstone by its time to live, without asking. So the epoch is noted before the worker becomes a
tombstone. A first beat reads it; it may read it a little earlier than it writes, for a tombstone stays much longer.
"""

from contextlib import suppress
from datetime import datetime

from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import Item, name_of, number, raw_key
from bullpen.engines.aws.dynamodb.table import TableClient, Unmet
from bullpen.errors import Refused

KEY = raw_key("Forgotten", "workers")

LASTS = 5.0
"""Seconds for which the epoch is remembered by those who receive first beats: far shorter than a tombstone lives."""

LARGEST = 10**9
"""No worker comes back so often: an agent that beats by itself wrote such an epoch, and must not move that of all
others."""


class ForgottenEpoch:
    """What one process knows of it."""

    def __init__(self, table: TableClient) -> None:
        self._table = table
        self._known = 0
        self._read_at: datetime | None = None

    async def read(self, now: datetime) -> int:
        """By the wall clock, which goes on while the machine sleeps."""
        if self._read_at is None or not 0 <= (now - self._read_at).total_seconds() < LASTS:
            item = await self._table.get(KEY)
            self._known = max(self._known, _epoch_in(item) if item else 0)
            self._read_at = now
        return self._known

    async def raise_to(self, epoch: int) -> None:
        """It only ever rises, so what is known to be reached needs no request."""
        if not self._known < epoch <= LARGEST:
            return
        expression = Expression()
        writes = expression.update({"epoch": number(epoch)})
        name = expression.name("epoch")
        condition = f"attribute_not_exists({name}) OR {name} < {expression.value(number(epoch))}"
        with suppress(Unmet):  # another process has noted it, or a higher one
            await self._table.update(expression.request(KEY, UpdateExpression=writes, ConditionExpression=condition))
        self._known = max(self._known, epoch)


def _epoch_in(item: Item) -> int:
    try:
        return int(item["epoch"]["N"])
    except (KeyError, TypeError, ValueError) as exc:
        raise Refused(
            f"DynamoDB item {name_of(KEY)}: `epoch` is missing or not a number",
            remedy="Another program wrote it: set `epoch` to a number higher than the epoch of every worker.",
        ) from exc
