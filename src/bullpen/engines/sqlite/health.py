"""The health of one home's database, and what services noted there."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from bullpen.engines.sqlite.port import SqlitePort
from bullpen.engines.sqlite.writer import Transaction
from bullpen.model.times import from_micros, to_micros
from bullpen.ports import FailingLoop, ServiceNote

PROBE = "INSERT INTO probes (id, at) VALUES (1, ?) ON CONFLICT DO UPDATE SET at = excluded.at"
FORGET = "DELETE FROM failing_loops WHERE process = ?"
FORGET_OLD = "DELETE FROM failing_loops WHERE until < ?"
NOTE = "INSERT INTO failing_loops (process, loop, since, error, until) VALUES (?, ?, ?, ?, ?)"
NOTED = "SELECT process, loop, since, error FROM failing_loops WHERE until > ? AND loop <> ''"
# The row of a process without a loop says that the process lives, until `since`. Its `until` has passed: the version
# before, which knows no such rows, takes it for forgotten.
SERVICES = "SELECT process, since FROM failing_loops WHERE until > ? AND since > ? AND loop = ''"
KEPT = timedelta(hours=1)
"""How long the notes of a service that has ended lie there, before another one removes them."""


class SqliteHealth(SqlitePort):
    async def probe(self, now: datetime) -> None:
        def write(transaction: Transaction) -> None:
            transaction.begin_work()
            transaction.execute(PROBE, (to_micros(now),))

        await self._database.write(write)
        await self._rows("SELECT at FROM probes WHERE id = 1")

    async def note(self, process: str, failing: Sequence[FailingLoop], until: datetime) -> None:
        def note(transaction: Transaction) -> None:
            transaction.execute(FORGET, (process,))
            transaction.execute(FORGET_OLD, (to_micros(until - KEPT),))
            rows = [(process, one.loop, to_micros(one.since), one.error, to_micros(until)) for one in failing]
            lives = (process, "", to_micros(until), "", to_micros(until - KEPT / 2))
            transaction.executemany(NOTE, [lives, *rows])

        await self._database.write(note)

    async def noted(self, now: datetime) -> list[FailingLoop]:
        rows = await self._rows(NOTED, to_micros(now))
        return [FailingLoop(loop, from_micros(since), error, process) for process, loop, since, error in sorted(rows)]

    async def services(self, now: datetime) -> list[ServiceNote]:
        rows = await self._rows(SERVICES, to_micros(now - KEPT), to_micros(now))
        return [ServiceNote(process, from_micros(until)) for process, until in sorted(rows)]
