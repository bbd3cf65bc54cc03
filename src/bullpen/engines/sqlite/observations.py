"""What refresh saw before, in SQLite: one row per topic and key, since when."""

from collections.abc import Sequence
from datetime import datetime

from bullpen.engines.sqlite.port import SqlitePort
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.writer import Transaction
from bullpen.model.times import from_micros, to_micros

OF_TOPIC = "SELECT key, since FROM observations WHERE topic = ?"
FORGET = "DELETE FROM observations WHERE topic = ?"
NOTE = "INSERT INTO observations (topic, key, since) VALUES (?, ?, ?)"


class SqliteObservations(SqlitePort):
    async def observe(
        self, topic: str, keys: Sequence[str], now: datetime, *, remember: bool = True
    ) -> dict[str, datetime]:
        def read(snapshot: Snapshot) -> dict[str, datetime]:
            before = dict(snapshot.execute(OF_TOPIC, (topic,)).fetchall())
            return {key: from_micros(before[key]) if key in before else now for key in keys}

        def note(transaction: Transaction) -> dict[str, datetime]:
            since = read(transaction)
            if {key for key, _ in transaction.execute(OF_TOPIC, (topic,))} != set(since):
                transaction.execute(FORGET, (topic,))
                transaction.executemany(NOTE, [(topic, key, to_micros(at)) for key, at in since.items()])
            return since

        return await (self._database.write(note) if remember else self._database.read(read))
