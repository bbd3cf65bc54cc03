"""What the codec of the SQLite rows promises: every field of a record has its column, and comes back as it was."""

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import NOW, a_provision, a_repository, an_instance, meet_repository
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.rows import SET_SESSIONS, WORKERS, Table
from bullpen.engines.sqlite.turnstile import connect
from bullpen.engines.sqlite.writes import TABLES
from bullpen.model import control, instance, job, provision, worker
from bullpen.model.transition import Debt
from set_builders import a_started_job, a_waiting_job, held, record_failure, record_message, retiring, take

LATER = NOW + timedelta(seconds=1.5)

FULL: list[Any] = [
    an_instance(
        owes=Debt(instance.InstanceDebt.TERMINATE, LATER), offered_at=NOW, attested=True, repository="octo/repo"
    ),
    replace(
        a_provision(),
        owes=Debt(provision.ProvisionDebt.SETTLE, LATER),
        fleets=(provision.Fleet("token", 2, provision.FleetState.ANSWERED),),
        members=("i-1", "i-2"),
        place=provision.Place("small", NOW, LATER),
    ),
    worker.Worker(
        "i-1/a", worker.ACTIVE, 3, "i-1", "zone", 1, 2, "request", 30.0, LATER, NOW, fate=worker.WorkerFate.RETIRE
    ),
    job.Job("j-1", job.FINISHED, 4, "run", ("echo", "ü"), index=7, bound=True, result=job.Result.FAILED, exit_code=3),
    control.Control("ingest", control.HELD, 2, NOW, None, 0.5, LATER, NOW, "why"),
    retiring()[-1].after,
    record_failure(
        record_message(held(), 7, waiting=(a_waiting_job(since=LATER),), started=(a_started_job(),)).after, "409"
    ).after,
    meet_repository(a_repository()).after,
]
BARE: list[Any] = [an_instance(), a_provision(), take().after, *(replace(each, version=9) for each in FULL[2:])]


def as_row(table: Table[Any], record: Any) -> tuple[Any, ...]:
    """As SQLite gives it back: by the names of the columns."""
    stored: dict[str, Any] = {}
    for name, field in table.fields.items():
        stored |= zip(field.columns, field.encode(getattr(record, name)), strict=True)
    return tuple(stored[column] for column in table.columns)


@pytest.mark.parametrize("record", [*FULL, *BARE], ids=lambda record: type(record).__name__)
def test_a_record_comes_back_from_its_row_as_it_was(record: Any) -> None:
    table = TABLES[type(record)]
    assert table.decode(as_row(table, record)) == record


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
@pytest.mark.real_loop
async def test_the_database_has_exactly_the_columns_of_the_records(table: Table[Any], tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        connection = connect(database.path)
        there = {row[1] for row in connection.execute(f"PRAGMA table_info({table.name})")}
        connection.close()
    # The key of the timers, and whether the last second is booked: of no concern to a record.
    beside = {"workers": {"number"}, "instances": {"booked"}}.get(table.name, set())
    assert there - beside == {*table.columns, *table.derived}


def test_a_waiting_job_stored_before_lapses_were_counted_is_read() -> None:
    row = list(as_row(SET_SESSIONS, record_message(held(), waiting=(a_waiting_job(),)).after))
    at = SET_SESSIONS.columns.index("waiting")
    (entry,) = json.loads(row[at])
    del entry["lapses"], entry["taken_back_at"]
    row[at] = json.dumps([entry])
    assert SET_SESSIONS.decode(tuple(row)).waiting == (a_waiting_job(),)


def test_a_value_that_its_enum_does_not_have_is_refused_by_name() -> None:
    row = list(as_row(WORKERS, FULL[2]))
    row[WORKERS.columns.index("state")] = "asleep"
    with pytest.raises(ValueError, match="'asleep' is not a valid State"):
        WORKERS.decode(tuple(row))


def test_a_field_that_no_column_can_hold_is_refused_when_the_table_is_made() -> None:
    @dataclass(frozen=True)
    class Odd:
        id: str
        state: instance.State
        version: int
        bag: set[str]

    with pytest.raises(TypeError, match="bag"):
        Table("odd", Odd)
