"""A home that an older version made: its machines are booked from what their stories tell."""

from pathlib import Path
from typing import Any

import pytest

from builders import NOW, later
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.history import SqliteHistory
from bullpen.engines.sqlite.migrations import load_scripts
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.turnstile import connect
from bullpen.history.spans import booking
from bullpen.model.instance import Instance
from bullpen.model.times import to_micros
from bullpen.model.usage import Owner

BEFORE = 11  # the version without any history
STEPS = (
    ("register", "created", 0),
    ("commit", "running", 30),
    ("expire", "terminated", 90),
    ("done", "terminated", 95),
)


def insert(connection: Any, table: str, **values: Any) -> None:
    """A row with these values; what must be there besides is empty."""
    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    needed = {name: 0 if kind == "INTEGER" else "" for _, name, kind, not_null, default, _ in columns if not_null}
    row = needed | values
    names = ", ".join(row)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))


@pytest.mark.real_loop
async def test_a_machine_that_ended_before_the_upgrade_is_booked_to_its_end(tmp_path: Path) -> None:
    async with Database.open(tmp_path, load_scripts()[:BEFORE]) as old:
        path = old.path
    connection = connect(path)
    insert(
        connection,
        "instances",
        id="i-1",
        state="terminated",
        version=4,
        resource_class="small",
        instance_type="local.small",
        usage_class="on-demand",
        purge_at=to_micros(later(3600)),
        run_id="run-1",
    )
    for version, (step, state, at) in enumerate(STEPS, 1):
        line = {"step": step, "state": state, "at": to_micros(later(at)), "version": version, "slot": version}
        insert(connection, "stories", record_id="i-1", **line)
    connection.commit()
    connection.close()
    async with Database.open(tmp_path) as database:
        records, history = SqliteRecords(database), SqliteHistory(database)
        assert await history.unbooked(10) == ["i-1"]
        record = (await records.instances(["i-1"]))["i-1"]
        story = (await records.stories(["i-1"], Instance))["i-1"]
        first = booking(None, record, story, later(9000))
        assert first is not None
        assert await history.book([first]) == [True]
        assert await history.unbooked(10) == []
        rows = (await history.usage(NOW, later(3600), 10)).rows
        assert {row.owner: row.microseconds / 1e6 for row in rows} == {
            Owner.BOOT: 30.0,
            Owner.RUN: 60.0,
            Owner.CLEANING: 5.0,
        }
