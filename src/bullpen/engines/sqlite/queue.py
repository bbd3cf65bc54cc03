"""Pool queues in SQLite: a table of tickets, taken in the order in which they become visible."""

from collections.abc import Sequence
from datetime import timedelta

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.rows import to_micros
from bullpen.engines.sqlite.writer import Transaction
from bullpen.ports import Clock

IS_ANY_VISIBLE = "SELECT 1 FROM tickets WHERE resource_class = ? AND visible_at <= ? LIMIT 1"
TAKE = """
    DELETE FROM tickets WHERE id IN (
        SELECT id FROM tickets WHERE resource_class = ? AND visible_at <= ? ORDER BY visible_at, id LIMIT ?
    ) RETURNING body
"""
SEND = "INSERT INTO tickets (resource_class, visible_at, body) VALUES (?, ?, ?)"
COUNT = "SELECT count(*) FROM tickets WHERE resource_class = ?"
NAMES = "SELECT resource_class FROM queues ORDER BY resource_class"
ENSURE = "INSERT INTO queues (resource_class) VALUES (?) ON CONFLICT DO NOTHING"
EMPTY = "DELETE FROM tickets WHERE resource_class = ?"
RETIRE = "DELETE FROM queues WHERE resource_class = ?"


class SqliteQueue:
    """`ports.PoolQueue` on one home's database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def take(self, resource_class: str, limit: int) -> list[str]:
        seen = (resource_class, to_micros(self._clock.now()))
        # A look first: an empty queue, the common case before a cold start, costs no turn and no flush of the disk.
        if await self._database.read(lambda snapshot: snapshot.execute(IS_ANY_VISIBLE, seen).fetchone()) is None:
            return []
        return await self._database.write(
            lambda transaction: [body for (body,) in transaction.execute(TAKE, (*seen, limit)).fetchall()]
        )

    async def send(self, resource_class: str, bodies: Sequence[str], delay: float = 0.0) -> None:
        visible_at = to_micros(self._clock.now() + timedelta(seconds=delay))

        def write(transaction: Transaction) -> None:
            # Made again if it has just been retired: no ticket lies where refresh, which goes by names, does not look.
            transaction.execute(ENSURE, (resource_class,))
            transaction.executemany(SEND, [(resource_class, visible_at, body) for body in bodies])

        if bodies:
            await self._database.write(write)

    async def count(self, resource_class: str) -> int:
        (number,) = await self._database.read(lambda snapshot: snapshot.execute(COUNT, (resource_class,)).fetchone())
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
