"""Watches which statements the engine executes, and how SQLite would find their rows."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.turnstile import connect
from bullpen.engines.sqlite.writer import Transaction

ASKED_FOR_WHOLE = (
    "SCAN queues",
    "SCAN registrations",
    "SCAN controls",
    "SCAN scale_sets",
    "SCAN set_sessions",
    "SCAN pauses",
    "SCAN rotations",
    "SCAN worker_counts",
    "SCAN tokens",
    "SCAN beat",  # what was sent, not what is stored
    "SCAN workers USING INDEX workers_owing",
    "SCAN workers USING INDEX workers_leaving",
    "SCAN instances USING INDEX instances_live",  # the census: each counts
    *(f"SCAN instances USING COVERING INDEX instances_{name}" for name in ("of_run", "claimable", "pending")),
)
"""Where every row is part of the answer. No such table keeps history, and the indexes hold only what is asked for."""


@contextmanager
def plans_checked(database: Path) -> Iterator[None]:
    """Fail at the end of the block if a statement executed within it walks a table instead of an index."""
    seen: dict[str, tuple[Any, ...] | dict[str, Any]] = {}
    execute, executemany = Snapshot.execute, Transaction.executemany

    def watched(snapshot: Snapshot, sql: str, parameters: Iterable[Any] | dict[str, Any] = ()) -> sqlite3.Cursor:
        seen[sql] = parameters if isinstance(parameters, dict) else tuple(parameters)
        return execute(snapshot, sql, seen[sql])

    def watched_many(transaction: Transaction, sql: str, rows: Iterable[Iterable[Any]]) -> sqlite3.Cursor:
        kept = [tuple(row) for row in rows]
        if kept:
            seen[sql] = kept[0]
        return executemany(transaction, sql, kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshot, "execute", watched)
        patch.setattr(Transaction, "executemany", watched_many)
        yield
    connection = connect(database)
    try:
        slow = {sql: walks for sql, row in seen.items() if (walks := _walks(connection, sql, row))}
    finally:
        connection.close()
    assert not slow, slow


def _walks(connection: sqlite3.Connection, sql: str, parameters: tuple[Any, ...] | dict[str, Any]) -> list[str]:
    plan = [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    return [detail for detail in plan if detail.startswith("SCAN") and not _is_asked_for_whole(detail)]


def _is_asked_for_whole(detail: str) -> bool:
    return detail in ASKED_FOR_WHOLE or " CONSTANT ROW" in detail
