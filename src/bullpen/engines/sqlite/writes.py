"""How a change lands: one conditional statement, and its line in the story.

    UPDATE … SET the difference WHERE id AND version AND state AND every guard RETURNING the record

No row returned means that the condition failed, and the stored record shows why: if it carries the very round that the
change drew, at its version, an attempt whose answer was lost has landed before; otherwise another writer changed it
first.

A statement is prepared on the event loop and executed on the writer's thread, where every other process waits for it.
"""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from bullpen.engines.sqlite.rows import (
    CONTROLS,
    INSTANCES,
    JOBS,
    PAUSES,
    PROVISIONS,
    REPOSITORIES,
    ROTATIONS,
    SCALE_SETS,
    SET_SESSIONS,
    STORY_COLUMNS,
    WORKERS,
    Row,
    Table,
    encode_line,
)
from bullpen.engines.sqlite.writer import Transaction
from bullpen.errors import Conflict, Refused
from bullpen.lazy_dataclass import dataclass
from bullpen.model import job, provision
from bullpen.model.control import Control
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.job import Job
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.repository import Repository
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.transition import STORY_LENGTH, Change, Check
from bullpen.model.worker import Worker

WRITE_LINE = f"REPLACE INTO stories (record_id, slot, {STORY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

RUNNERS = "SELECT id FROM instances WHERE run_id = ? AND run_id <> '' AND state <> 'terminated'"

TABLES: dict[type[Any], Table[Any]] = {
    Instance: INSTANCES,
    Provision: PROVISIONS,
    Worker: WORKERS,
    Job: JOBS,
    Control: CONTROLS,
    ScaleSet: SCALE_SETS,
    SetSession: SET_SESSIONS,
    Repository: REPOSITORIES,
    Pause: PAUSES,
    Rotation: ROTATIONS,
}

NEW_WORK = (Provision, Job, Repository)
"""Kinds of records that are not made while the disk is full. All others that are made then belong to earlier work."""

_OPERATORS = {"is": "IS ?", "after": "> ?"}


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A change, ready to be executed."""

    change: Change[Any]
    table: Table[Any]
    statement: str
    parameters: Row

    @classmethod
    def of(cls, change: Change[Any]) -> "PreparedChange":
        table = TABLES[type(change.after)]
        if change.before.version == 0:
            return cls(change, table, insert_statement(table), _values(table, change.after, tuple(table.fields)))
        written = tuple(change.difference())
        bound = [
            *_values(table, change.after, written),
            change.before.id,
            change.before.version,
            change.before.state.value,
        ]
        tests = []
        for guard in change.guards:
            values = guard.value if guard.test == "in" else (guard.value,)
            tests.append((guard.field, guard.test, len(values)))
            for value in values:
                bound += table.fields[guard.field].encode(value)
        return cls(change, table, update_statement(table, written, tuple(tests)), tuple(bound))


def land_together(
    transaction: Transaction, landings: Sequence[PreparedChange], checks: Sequence[Check] = ()
) -> list[Row]:
    """All or nothing: raise Conflict at the first that does not land; the caller's savepoint takes the others back."""
    for check in checks:
        _verify(transaction, check)
    rows = []
    for landing in landings:
        row = _land(transaction, landing)
        if isinstance(row, Exception):
            raise row
        rows.append(row)
    _wake_runners(transaction, landings)
    return rows


def land_each(transaction: Transaction, landings: Sequence[PreparedChange]) -> list[Row | Conflict | Refused]:
    """Each on its own. A failed statement leaves nothing behind, so none needs a savepoint."""
    outcomes = [_land(transaction, landing) for landing in landings]
    _wake_runners(transaction, landings)
    return outcomes


def _verify(transaction: Transaction, check: Check) -> None:
    table = TABLES[check.kind]
    row: Row | None = transaction.execute(select_by_id(table), (check.id,)).fetchone()
    if row is None:
        raise Conflict(f"{check.id} is absent")
    found = table.decode(row)
    for guard in check.guards:
        if not guard.holds(found):
            raise Conflict(f"{check.id} must have {guard}", found=found)


def _land(transaction: Transaction, landing: PreparedChange) -> Row | Conflict | Refused:
    change = landing.change
    if change.before.version == 0 and isinstance(change.after, NEW_WORK):
        transaction.begin_work()
    try:
        row: Row | None = transaction.execute(landing.statement, landing.parameters).fetchone()
    except sqlite3.IntegrityError as exc:
        refusal = Refused(f"{change.after.id}: {change.step} violates a constraint of the store ({exc})")
        refusal.__cause__ = exc
        return refusal
    if row is None:
        return _landed_before_or_conflict(transaction, landing)
    if (line := change.line) is not None:
        transaction.execute(WRITE_LINE, (change.after.id, line.version % STORY_LENGTH, *encode_line(line)))
    _wake(transaction, landing)
    return row


def _landed_before_or_conflict(transaction: Transaction, landing: PreparedChange) -> Row | Conflict:
    change, table = landing.change, landing.table
    row: Row | None = transaction.execute(select_by_id(table), (change.after.id,)).fetchone()
    if row is None:
        return Conflict(f"{change.after.id}: {change.step} found no record")
    found = table.decode(row)
    if change.draws_round and found.version == change.after.version and found.round == change.after.round:
        return row
    return Conflict(_difference_in_words(change, found), found=found)


def _difference_in_words(change: Change[Any], found: Any) -> str:
    seen = change.before
    if (found.version, found.state) != (seen.version, seen.state):
        wanted = "absent" if seen.version == 0 else f"{seen.state} at version {seen.version}"
        return f"{found.id}: {change.step} needs it {wanted}; it is {found.state} at version {found.version}"
    failed = ", ".join(str(guard) for guard in change.guards if not guard.holds(found))
    return f"{found.id}: {change.step} needs {failed}"


def _wake(transaction: Transaction, landing: PreparedChange) -> None:
    match landing.change.after:
        case Instance() as instance:
            transaction.wake(instance.id)  # its agent
            if instance.is_claimable or instance.state is TERMINATED:
                transaction.wake_control()  # a releaser or a pickup may wait for the offer, a provision for the room
        case Provision() as landed:
            if landed.state is not provision.OPEN or landing.change.before.waits_for not in ("", landed.waits_for):
                transaction.wake_control()  # the process that works for it stops; those behind it in a queue move up
        case Job() as followed:
            transaction.wake_control()  # processes that follow the job
            if followed.cancelling:
                transaction.wake(followed.instance_id)
        case _:
            if landing.change.line is not None:
                transaction.wake_control()  # a worker came or went: its jobs may wait


def _wake_runners(transaction: Transaction, landings: Sequence[PreparedChange]) -> None:
    """The agents of every run that has a job to take; once for all jobs, for a run may have thousands."""
    jobs = [landing.change.after for landing in landings if landing.table is JOBS]
    for run_id in dict.fromkeys(each.run_id for each in jobs if each.state is job.QUEUED):
        for (instance_id,) in transaction.execute(RUNNERS, (run_id,)).fetchall():
            transaction.wake(instance_id)


def _values(table: Table[Any], record: Any, names: Sequence[str]) -> Row:
    """The values of these fields and of the derived columns, in the order of `_columns`."""
    values: list[Any] = []
    for name in names:
        values += table.fields[name].encode(getattr(record, name))
    values += [derive(record) for derive in table.derived.values()]
    return tuple(values)


def _columns(table: Table[Any], names: Sequence[str]) -> list[str]:
    return [*(column for name in names for column in table.fields[name].columns), *table.derived]


# The texts are few, one for each step and shape of its guards, and kept: a prepared statement is found by its text.


@lru_cache(maxsize=256)
def select_by_id(table: Table[Any]) -> str:
    return f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE id = ?"


@lru_cache(maxsize=256)
def insert_statement(table: Table[Any]) -> str:
    columns = _columns(table, tuple(table.fields))
    return (
        f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        f" ON CONFLICT (id) DO NOTHING RETURNING {', '.join(table.columns)}"
    )


@lru_cache(maxsize=256)
def update_statement(table: Table[Any], written: tuple[str, ...], tests: tuple[tuple[str, str, int], ...]) -> str:
    conditions = ["id = ?", "version = ?", "state = ?"]
    for name, test, operands in tests:
        (column,) = table.fields[name].columns  # a guard on a field of several columns has no meaning
        operator = f"IN ({', '.join('?' * operands)})" if test == "in" else _OPERATORS[test]
        conditions.append(f"{column} {operator}")
    return (
        f"UPDATE {table.name} SET {', '.join(f'{column} = ?' for column in _columns(table, written))}"
        f" WHERE {' AND '.join(conditions)} RETURNING {', '.join(table.columns)}"
    )
