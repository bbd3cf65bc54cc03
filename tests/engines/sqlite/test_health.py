"""What SqliteHealth promises beyond every StoreHealth: the version before reads the same file."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.health import SqliteHealth
from bullpen.engines.system import SystemClock
from bullpen.model.times import to_micros
from bullpen.ports import FailingLoop

pytestmark = pytest.mark.real_loop

BEFORE = "SELECT process, loop, since, error FROM failing_loops WHERE until > ?"
"""The question of the version before, which knows only loops that fail."""


async def test_the_version_before_sees_no_failing_loop_in_a_service_that_lives(tmp_path: Path) -> None:
    now = SystemClock().now()
    async with Database.open(tmp_path) as database:
        health = SqliteHealth(database)
        await health.note("serve on a (7)", [], now + timedelta(seconds=120))
        await health.note("serve on b (7)", [FailingLoop("reap", now, "no")], now + timedelta(seconds=120))
        assert len(await health.services(now)) == 2
    with closing(sqlite3.connect(tmp_path / "bullpen.db")) as connection:
        rows = connection.execute(BEFORE, (to_micros(now),)).fetchall()
    assert [(process, loop) for process, loop, _, _ in rows] == [("serve on b (7)", "reap")]
