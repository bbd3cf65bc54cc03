"""Removes records whose time is over, with everything that belongs to them."""

import asyncio
from functools import partial

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.logs import remove_logs
from bullpen.engines.sqlite.rows import Row
from bullpen.engines.sqlite.writer import Transaction
from bullpen.model.signal import direct_key

OVER_JOBS = "SELECT id, fence FROM jobs WHERE purge_at <= ? ORDER BY purge_at LIMIT ?"
SETTLED = "AND lost_epoch <= settled_epoch"


async def purge(database: Database, now: int, limit: int) -> int:
    """Remove up to `limit` records whose time has come by `now`, in microseconds."""
    # Files before rows: if we are killed between, the rows are still there to say which files are left.
    jobs = await database.read(lambda snapshot: snapshot.execute(OVER_JOBS, (now, limit)).fetchall())
    if jobs:
        await asyncio.to_thread(remove_logs, database.path.parent, jobs)
    return await database.write(partial(_purge, now=now, limit=limit, jobs=[id_ for id_, _ in jobs]))


def _purge(transaction: Transaction, now: int, limit: int, jobs: list[str]) -> int:
    instances = _delete_due(transaction, "instances", now, limit)
    transaction.executemany("DELETE FROM signals WHERE instance_id = ?", instances)
    # Other workers of an instance leave in their own time: jobs may still be bound to them. So does one that owes.
    direct = [(direct_key(id_),) for (id_,) in instances]
    transaction.executemany(f"DELETE FROM workers WHERE id = ? {SETTLED}", direct)
    transaction.executemany(
        "DELETE FROM stories WHERE record_id = ?1 AND NOT EXISTS (SELECT 1 FROM workers WHERE id = ?1)", direct
    )
    provisions = _delete_due(transaction, "provisions", now, limit - len(instances))
    room = limit - len(instances) - len(provisions)
    workers = _delete_due(transaction, "workers", now, room, SETTLED)
    over = [(id_,) for id_ in jobs[: max(room - len(workers), 0)]]
    ended = transaction.executemany("DELETE FROM jobs WHERE id = ?", over).rowcount if over else 0
    transaction.executemany("DELETE FROM stories WHERE record_id = ?", [*instances, *provisions, *workers, *over])
    return len(instances) + len(provisions) + len(workers) + ended


def _delete_due(transaction: Transaction, table: str, now: int, limit: int, condition: str = "") -> list[Row]:
    return transaction.execute(
        f"DELETE FROM {table} WHERE id IN"
        f" (SELECT id FROM {table} WHERE purge_at <= ? {condition} ORDER BY purge_at LIMIT ?) RETURNING id",
        (now, limit),
    ).fetchall()
