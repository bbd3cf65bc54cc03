"""Workers and jobs as they lie in the embedded store, read and changed inside one transaction.

The transaction is alone with the database: what a step sees is what is stored, so a change lands by its id alone, and
the step's own guards are the condition.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from bullpen.lazy_dataclass import dataclass
from bullpen.model import job, worker
from bullpen.model.job import Job
from bullpen.model.times import from_micros, to_micros
from bullpen.model.transition import STORY_LENGTH, Change
from bullpen.model.worker import Worker

R = TypeVar("R", bound=Worker | Job)


@dataclass(frozen=True, slots=True)
class Rows(Generic[R]):
    """One kind of record. Its columns are named after its fields, but for those that SQL has a meaning for."""

    table: str
    kind: type[R]
    decoders: Mapping[str, Callable[[Any], Any]]

    def read(self, connection: sqlite3.Connection, id: str) -> R | None:
        names = [field.name for field in fields(self.kind)]
        columns = ", ".join(map(_column, names))
        row = connection.execute(f"SELECT {columns} FROM {self.table} WHERE id = ?", (id,)).fetchone()
        if row is None:
            return None
        stored = dict(zip(names, row, strict=True))
        decoded = {name: decode(stored[name]) for name, decode in self.decoders.items() if stored[name] is not None}
        return self.kind(**stored | decoded)

    def land(self, connection: sqlite3.Connection, change: Change[R]) -> R:
        """Write the difference and the line of the story; returns the record as stored."""
        after = change.after
        if change.before.version == 0:
            written = {field.name: encoded(getattr(after, field.name)) for field in fields(self.kind)}
            columns, marks = ", ".join(map(_column, written)), ", ".join("?" * len(written))
            connection.execute(f"INSERT INTO {self.table} ({columns}) VALUES ({marks})", tuple(written.values()))
        else:
            written = {name: encoded(value) for name, value in change.difference().items()}
            columns = ", ".join(f"{_column(name)} = ?" for name in written)
            connection.execute(f"UPDATE {self.table} SET {columns} WHERE id = ?", (*written.values(), after.id))
        if (line := change.line) is not None:
            values = (after.id, line.version % STORY_LENGTH, line.version, line.step, line.state)
            connection.execute(_TELL, (*values, to_micros(line.at), line.by, line.why))
        return after


def _column(field: str) -> str:
    return "job_index" if field == "index" else field


def encoded(value: Any) -> Any:
    match value:
        case datetime():
            return to_micros(value)
        case StrEnum():
            return value.value
        case bool():
            return int(value)
        case tuple():
            return json.dumps(value)
    return value


def words(command: str) -> tuple[str, ...]:
    """A job's command, or its patterns; empty if what is stored is not one: the job fails then, and not the agent."""
    try:
        found = json.loads(command)
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(word, str) for word in found) else ()


WORKERS = Rows(
    "workers",
    Worker,
    {
        "state": worker.State,
        "fate": worker.WorkerFate,
        **dict.fromkeys(("deadline", "due_at", "cleanup_at", "purge_at", "beat_at", "leaving"), from_micros),
    },
)
JOBS = Rows(
    "jobs",
    Job,
    {
        "state": job.State,
        "result": job.Result,
        "command": words,
        "artifacts": words,
        **dict.fromkeys(("side_effects", "bound", "cancelling"), bool),
        **dict.fromkeys(("queued_at", "not_before", "verify_by", "finished_at", "purge_at"), from_micros),
    },
)

_TELL = "REPLACE INTO stories (record_id, slot, version, step, state, at, by, why) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
