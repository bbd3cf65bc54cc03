"""What jobs print, as chunks in DynamoDB: `TYPE#Log#<job>#<fence>` / `ID#<offset>`, each where the one before it ends.

A chunk is only ever written at the end of the log, on the condition that there is none. So a writer may use
an end that it remembers: of two that do, one gets the answer that the log has grown, and looks where it ends now. There
is neither a gap nor an overlap, whatever raced or was repeated.
"""

from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import Item, number, raw_id, raw_key
from bullpen.engines.aws.dynamodb.table import TableClient, Unmet
from bullpen.errors import Refused
from bullpen.ports import LOG_LIMIT, Clock

CHUNK = 64 * 1024
"""Bytes of one item. It may have 400 KB, but a reader of some bytes of a chunk pays for all of it."""

PAGE = 8
"""Chunks read at a time: half a megabyte at most, a few kilobytes as jobs usually print."""

LOGS_LAST = 7 * 86400
"""Seconds after which a chunk goes by itself: long after the job that printed it, and in time to ask what it said."""

ENDS = 1000
"""Logs whose end is remembered: about as many as print at once into one process."""


class DynamoLogs:
    """`ports.Logs` on the table of a pool. Remembers where logs ended, which saves a read for nearly every append."""

    def __init__(self, table: TableClient, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._ends: dict[str, int] = {}

    async def append(self, job_id: str, fence: int, offset: int, content: bytes) -> int:
        log, until = _kind(job_id, fence), min(offset + len(content), LOG_LIMIT)
        end = self._ends.pop(log, None)
        if end is None or end < min(offset, LOG_LIMIT):
            end = await self._end(log)
        while offset <= end < until:
            new = content[end - offset :][: min(CHUNK, LOG_LIMIT - end)]
            end = end + len(new) if await self._add(log, end, new) else await self._end(log)
        if end < min(offset, LOG_LIMIT):
            raise Refused(f"{job_id}: its log has {end} bytes, none at {offset} yet")
        while len(self._ends) >= ENDS:
            del self._ends[next(iter(self._ends))]  # the one that has not grown for the longest time
        self._ends[log] = end
        return end

    async def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        log = _kind(job_id, fence)
        walk = self._table.walk(("PK", f"TYPE#{log}"), ("SK", ">=", _sort(offset)), page=PAGE)
        printed = b""
        while not walk.over and len(printed) < limit:
            for chunk in await walk.page():
                if not printed and _offset(chunk) != offset:
                    printed = await self._rest_of_chunk(log, offset)
                printed += chunk["content"]["B"]
        # No chunk begins at `offset`: it is at the end, or inside the last chunk.
        return (printed or await self._rest_of_chunk(log, offset))[:limit]

    async def _add(self, log: str, at: int, content: bytes) -> bool:
        """Put a chunk at what was the end; False if there is one already, maybe this one, whose answer was lost."""
        expression = Expression()
        ttl = number(int(self._clock.now().timestamp()) + LOGS_LAST)
        writes = expression.update({"content": {"B": content}, "ttl": ttl})
        condition = f"attribute_not_exists({expression.name('PK')})"
        key = raw_key(log, f"{at:012}")
        try:
            await self._table.update(expression.request(key, UpdateExpression=writes, ConditionExpression=condition))
        except Unmet:
            return False
        return True

    async def _end(self, log: str) -> int:
        last = await self._table.walk(("PK", f"TYPE#{log}"), newest_first=True, page=1).first(1)
        return _offset(last[0]) + len(last[0]["content"]["B"]) if last else 0

    async def _rest_of_chunk(self, log: str, offset: int) -> bytes:
        """What the chunk that begins before `offset` has from there on."""
        before = self._table.walk(("PK", f"TYPE#{log}"), ("SK", "<", _sort(offset)), newest_first=True, page=1)
        return b"".join(chunk["content"]["B"][offset - _offset(chunk) :] for chunk in await before.first(1))


def _kind(job_id: str, fence: int) -> str:
    return f"Log#{job_id}#{fence}"


def _sort(offset: int) -> str:
    return f"ID#{offset:012}"


def _offset(chunk: Item) -> int:
    return int(raw_id(chunk))
