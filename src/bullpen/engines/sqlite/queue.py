"""Pool queues in SQLite: a table of tickets, taken in the order in which they become visible.

An expired ticket is invisible at once, and removed by the next that takes or sends.
"""

from collections.abc import Sequence
from datetime import timedelta

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.rows import to_micros_or_null
from bullpen.engines.sqlite.writer import Transaction
from bullpen.model.times import to_micros
from bullpen.ports import Clock, Message

LASTS = "(expires_at IS NULL OR expires_at > :now)"
IS_VISIBLE = f"resource_class = :name AND visible_at <= :now AND {LASTS}"
IS_ANY_VISIBLE = f"SELECT 1 FROM tickets INDEXED BY tickets_visible WHERE {IS_VISIBLE} LIMIT 1"
TAKE = f"""
    DELETE FROM tickets WHERE id IN (
        SELECT id FROM tickets INDEXED BY tickets_visible WHERE {IS_VISIBLE} ORDER BY visible_at, id LIMIT :limit
    ) RETURNING body
"""
SEND = "INSERT INTO tickets (resource_class, visible_at, expires_at, body) VALUES (?, ?, ?, ?)"
COUNT = f"SELECT count(*) FROM tickets INDEXED BY tickets_visible WHERE resource_class = :name AND {LASTS}"
SWEEP = "DELETE FROM tickets WHERE id IN (SELECT id FROM tickets WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)"
SWEPT = 1000  # expired tickets removed by one call: no call waits long for a pile of them
NAMES = "SELECT resource_class FROM queues ORDER BY resource_class"
ENSURE = "INSERT INTO queues (resource_class) VALUES (?) ON CONFLICT DO NOTHING"
EMPTY = "DELETE FROM tickets WHERE resource_class = ?"
RETIRE = "DELETE FROM queues WHERE resource_class = ?"


class SqliteQueue:
    """`ports.PoolQueue` on one home's database."""

    counts_expired = False

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def take(self, resource_class: str, limit: int) -> list[str]:
        now = to_micros(self._clock.now())
        visible = {"name": resource_class, "now": now}

        def write(transaction: Transaction) -> list[str]:
            transaction.execute(SWEEP, (now, SWEPT))
            return [body for (body,) in transaction.execute(TAKE, {**visible, "limit": limit}).fetchall()]

        # A look first: an empty queue, the common case before a cold start, costs no turn and no flush of the disk.
        if await self._database.read(lambda snapshot: snapshot.execute(IS_ANY_VISIBLE, visible).fetchone()) is None:
            return []
        return await self._database.write(write)

    async def send(self, resource_class: str, messages: Sequence[Message], delay: float = 0.0) -> None:
        now = self._clock.now()
        visible_at = to_micros(now + timedelta(seconds=delay))
        rows = [(resource_class, visible_at, to_micros_or_null(one.expires), one.body) for one in messages]

        def write(transaction: Transaction) -> None:
            # Made again if it has just been retired: no ticket lies where refresh, which goes by names, does not look.
            transaction.execute(ENSURE, (resource_class,))
            transaction.execute(SWEEP, (to_micros(now), SWEPT))
            transaction.executemany(SEND, rows)

        if rows:
            await self._database.write(write)

    async def count(self, resource_class: str) -> int:
        lasting = {"name": resource_class, "now": to_micros(self._clock.now())}
        (number,) = await self._database.read(lambda snapshot: snapshot.execute(COUNT, lasting).fetchone())
        return int(number)

    async def names(self) -> list[str]:
        return await self._database.read(lambda snapshot: [name for (name,) in snapshot.execute(NAMES).fetchall()])

    async def ensure(self, resource_class: str) -> None:
        if resource_class not in await self.names():
            await self._database.write(lambda transaction: transaction.execute(ENSURE, (resource_class,)).rowcount)

    async def retire(self, resource_class: str) -> None:
        def write(transaction: Transaction) -> None:
            transaction.execute(EMPTY, (resource_class,))
            transaction.execute(RETIRE, (resource_class,))

        await self._database.write(write)
