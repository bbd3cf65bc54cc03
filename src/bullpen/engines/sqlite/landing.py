"""How a change lands: one conditional statement, and its line in the story.

    UPDATE … SET the difference WHERE id AND version AND state AND every guard RETURNING the record

No row returned means that the condition failed, and the stored record tells why: if it carries the very round that the
change drew, at its version, an attempt whose answer was lost has landed before; otherwise somebody moved it first.

A statement is prepared on the event loop and executed on the writer's thread, where every other process waits for it.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bullpen.engines.sqlite.rows import INSTANCES, Row, Table, encode_line, table_of, to_micros_or_null
from bullpen.engines.sqlite.writer import Transaction
from bullpen.errors import Conflict, Refused
from bullpen.model import provision
from bullpen.model.transition import STORY_LENGTH, Change

WRITE_LINE = "REPLACE INTO stories (record_id, slot, version, step, state, at, by, why) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

_OPERATORS = {"is": "IS ?", "after": "> ?"}


@dataclass(frozen=True, slots=True)
class Landing:
    """A change, ready to be executed."""

    change: Change[Any]
    table: Table[Any]
    statement: str
    parameters: Row

    @classmethod
    def of(cls, change: Change[Any]) -> "Landing":
        table = table_of(change.after)
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


def land_together(transaction: Transaction, landings: Sequence[Landing]) -> list[Row]:
    """All or nothing: raise Conflict at the first that does not land; the caller's savepoint takes the others back."""
    rows = []
    for landing in landings:
        row = _land(transaction, landing)
        if isinstance(row, Exception):
            raise row
        rows.append(row)
    return rows


def land_each(transaction: Transaction, landings: Sequence[Landing]) -> list[Row | Conflict | Refused]:
    """Each on its own. A failed statement leaves nothing behind, so none needs a savepoint."""
    return [_land(transaction, landing) for landing in landings]


def _land(transaction: Transaction, landing: Landing) -> Row | Conflict | Refused:
    change = landing.change
    try:
        row: Row | None = transaction.execute(landing.statement, landing.parameters).fetchone()
    except sqlite3.IntegrityError as exc:
        refusal = Refused(f"{change.after.id}: {change.step} would break a rule of the store ({exc})")
        refusal.__cause__ = exc
        return refusal
    if row is None:
        return _landed_before_or_conflict(transaction, landing)
    if (line := change.line) is not None:
        transaction.execute(WRITE_LINE, (change.after.id, line.version % STORY_LENGTH, *encode_line(line)))
    _wake(transaction, landing)
    return row


def _landed_before_or_conflict(transaction: Transaction, landing: Landing) -> Row | Conflict:
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


def _wake(transaction: Transaction, landing: Landing) -> None:
    after = landing.change.after
    if landing.table is INSTANCES:
        transaction.wake(after.id)  # its agent
        if after.is_claimable:
            transaction.wake_control()  # a releaser or a pickup may wait for the offer
    elif after.state is not provision.OPEN:
        transaction.wake_control()  # whoever works for this provision stops or carries the decision out


def _values(table: Table[Any], record: Any, names: Sequence[str]) -> Row:
    """The values of these fields and of `due_at`, in the order of `_columns`."""
    values: list[Any] = []
    for name in names:
        values += table.fields[name].encode(getattr(record, name))
    values.append(to_micros_or_null(record.due_at))
    return tuple(values)


def _columns(table: Table[Any], names: Sequence[str]) -> list[str]:
    return [*(column for name in names for column in table.fields[name].columns), "due_at"]


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
