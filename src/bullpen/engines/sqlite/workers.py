"""Workers and their leases in SQLite.

A beat rewrites one row, found by its key. Only where it does not match (a first beat, a late or doubled one, a
resurrection, another instance or domain) is the row read and `model.worker.receive` asked, in the same transaction.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from bullpen.engines.sqlite.beats import receive
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import CONTROLS, WORKERS, Row, decode_card, encode_card
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.sqlite.writes import select_by_id
from bullpen.model.control import Control
from bullpen.model.times import from_micros, to_micros
from bullpen.model.worker import Accepted, Beat, Card, Rejected, Worker
from bullpen.ports.liveness import HeldLease

_COLUMNS = ", ".join(WORKERS.columns)
_WORKER = f"SELECT {_COLUMNS} FROM workers"

COARSENESS = 5_000_000
"""Microseconds. A timer moves to the last whole step before the deadline: what moves in one pass lands on few times,
side by side on few pages. At the deadlines themselves nearly every timer of a million would dirty a page of its own."""

# The same workers in the same order: what MOVE has given a later timer, and what has no lease to look at any more, is
# taken off by DROP. CROSS JOIN: from the timers to the workers, whatever SQLite thinks of their numbers.
MOVE = f"""
    INSERT OR IGNORE INTO lease_timers (due_at, worker)
    SELECT :now + max((deadline - :now) / {COARSENESS} * {COARSENESS}, min(deadline - :now, {COARSENESS})), number
    FROM lease_timers AS timer CROSS JOIN workers ON number = timer.worker
    WHERE timer.due_at <= :now AND state = 'active' AND deadline > :now ORDER BY timer.due_at, timer.worker LIMIT :limit
"""
DROP = """
    DELETE FROM lease_timers WHERE (due_at, worker) IN (
        SELECT timer.due_at, timer.worker FROM lease_timers AS timer LEFT JOIN workers ON number = timer.worker
        WHERE timer.due_at <= :now AND (state = 'active' AND deadline <= :now) IS NOT TRUE
        ORDER BY timer.due_at, timer.worker LIMIT :limit
    )
"""
SUSPECTS = f"""
    SELECT {", ".join(f"workers.{column}" for column in WORKERS.columns)}
    FROM lease_timers AS timer CROSS JOIN workers ON number = timer.worker
    WHERE timer.due_at <= :now AND state = 'active' AND deadline <= :now ORDER BY timer.due_at, timer.worker
"""
TO_CLEAN = f"{_WORKER} WHERE cleanup_at <= ? ORDER BY cleanup_at, id LIMIT ?"
LOST = f"{_WORKER} WHERE cleanup_at IS NOT NULL ORDER BY cleanup_at, id LIMIT ?"
OWING = f"{_WORKER} WHERE lost_epoch > settled_epoch ORDER BY id LIMIT ?"
LEAVING = f"{_WORKER} WHERE leaving IS NOT NULL AND state = 'active' ORDER BY id LIMIT ?"
LISTED = f"{_WORKER} WHERE id > ? AND state <> 'cleaned-up' ORDER BY id LIMIT ?"
CENSUS = "SELECT domain, state, number FROM worker_counts WHERE state <> 'cleaned-up' AND number > 0"
# No index holds what every beat changes: each worker is looked at, up to the last of so many.
LAST_OF = "SELECT number FROM workers WHERE number > 0 ORDER BY number LIMIT 1 OFFSET ?"
LEASES = """
    SELECT instance_id, deadline, lease, beat_at FROM workers
    WHERE number > 0 AND number <= ? AND state = 'active' AND instance_id <> '' AND beat_at > ?
"""
DESCRIBE = """
    INSERT INTO cards (worker, card) SELECT id, ? FROM workers WHERE id = ? AND state <> 'cleaned-up'
    ON CONFLICT (worker) DO UPDATE SET card = excluded.card WHERE card <> excluded.card
"""
CARD = "SELECT card FROM cards WHERE worker = ?"
CONTROL = f"SELECT {', '.join(CONTROLS.columns)} FROM controls"

LARGEST_NUMBER = 2**63 - 1

PORTION = 1000
"""Timers that move in one write: about ten milliseconds, for which every beat waits."""


class SqliteWorkers:
    """`ports.Workers` on one home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def beat(self, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
        return await receive(self._database, beats)

    async def workers(self, keys: Sequence[str]) -> dict[str, Worker]:
        def read(snapshot: Snapshot) -> list[Row | None]:
            statement = select_by_id(WORKERS)
            return [snapshot.execute(statement, (key,)).fetchone() for key in dict.fromkeys(keys)]

        return {row[0]: WORKERS.decode(row) for row in await self._database.read(read) if row is not None}

    async def rearm(self, now: datetime, limit: int) -> int:
        # The row keeps the time at which its last step wanted a look: only the timer moves, and it is never later than
        # the deadline, so the model's rule (a lease that gets shorter pulls the timer earlier) holds as it stands.
        moved = 0
        while moved < limit:
            portion = min(PORTION, limit - moved)
            latest = await self._database.write(partial(_rearm, now=to_micros(now), limit=portion))
            moved += latest
            if latest < portion:
                break
        return moved

    async def suspects(self, now: datetime, limit: int) -> list[Worker]:
        def read(snapshot: Snapshot) -> list[Row]:
            found: dict[str, Row] = {}
            for row in snapshot.execute(SUSPECTS, {"now": to_micros(now)}):
                found.setdefault(row[0], row)  # one that had a longer lease before may have two timers
                if len(found) >= limit:
                    break
            return list(found.values())

        return [WORKERS.decode(row) for row in await self._database.read(read)] if limit else []

    async def to_clean(self, now: datetime, limit: int) -> list[Worker]:
        return await self._select(TO_CLEAN, to_micros(now), limit)

    async def owing(self, limit: int) -> list[Worker]:
        return await self._select(OWING, limit)

    async def lost(self, limit: int) -> list[Worker]:
        return await self._select(LOST, limit)

    async def leaving(self, limit: int) -> list[Worker]:
        return await self._select(LEAVING, limit)

    async def listed(self, limit: int, after: str = "") -> list[Worker]:
        return await self._select(LISTED, after, limit)

    async def census(self) -> dict[tuple[str, str], int]:
        rows = await self._database.read(lambda snapshot: snapshot.execute(CENSUS).fetchall())
        return {(domain, state): number for domain, state, number in rows}

    async def leases(self, since: datetime, limit: int) -> list[HeldLease]:
        def read(snapshot: Snapshot) -> list[Row]:
            beyond = snapshot.execute(LAST_OF, (limit,)).fetchone()
            last = beyond[0] - 1 if beyond else LARGEST_NUMBER
            return snapshot.execute(LEASES, (last, to_micros(since))).fetchall()

        rows = await self._database.read(read)
        return [HeldLease(id, from_micros(deadline), lease, from_micros(at)) for id, deadline, lease, at in rows]

    async def describe(self, key: str, card: Card) -> None:
        said = encode_card(card)
        known = await self._database.read(lambda snapshot: snapshot.execute(CARD, (key,)).fetchone())
        if known != (said,):
            await self._database.write(lambda transaction: transaction.execute(DESCRIBE, (said, key)).rowcount)

    async def cards(self, keys: Sequence[str]) -> dict[str, Card]:
        def read(snapshot: Snapshot) -> dict[str, Row | None]:
            return {key: snapshot.execute(CARD, (key,)).fetchone() for key in keys}

        return {key: decode_card(row[0]) for key, row in (await self._database.read(read)).items() if row is not None}

    async def controls(self) -> dict[str, Control]:
        rows = await self._database.read(lambda snapshot: snapshot.execute(CONTROL).fetchall())
        return {row[0]: CONTROLS.decode(row) for row in rows}

    async def _select(self, statement: str, *parameters: object) -> list[Worker]:
        rows = await self._database.read(lambda snapshot: snapshot.execute(statement, parameters).fetchall())
        return [WORKERS.decode(row) for row in rows]


def _rearm(transaction: Transaction, now: int, limit: int) -> int:
    due = {"now": now, "limit": limit}
    moved = transaction.execute(MOVE, due).rowcount
    transaction.execute(DROP, due)
    return moved
