"""What a database keeps for itself, so that it can be written when a job has filled the disk."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from builders import open_provision, running
from bullpen.engines.sqlite import reserve
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.health import SqliteHealth
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.system import SystemClock
from bullpen.errors import Unavailable
from small_disks import a_small_disk, fill

pytestmark = pytest.mark.real_loop


@pytest.fixture
def home() -> Iterator[Path]:
    """A home on a disk that a test may fill."""
    with a_small_disk() as disk:
        (disk / "home").mkdir(mode=0o700)
        yield disk / "home"


def files(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir() if path.name.startswith("bullpen.db"))


def touch(number: int) -> Callable[[Transaction], int]:
    """A write of a kilobyte to one of ten rows, as a heartbeat is one."""

    def run(tx: Transaction) -> int:
        row = (number % 10, os.urandom(512).hex())
        tx.execute("INSERT OR REPLACE INTO cards (worker, card) VALUES (?, ?)", row)
        return number

    return run


KILLED = """
import os, sys
from pathlib import Path
from bullpen.engines.sqlite.turnstile import connect

connection = connect(Path(sys.argv[1]))
connection.execute("INSERT INTO cards (worker, card) VALUES (?, '')", (sys.argv[2],))
os._exit(0)
"""
BUSY = """
import sys
from contextlib import closing
from pathlib import Path
from bullpen.engines.sqlite.turnstile import connect

for number in range(40):
    with closing(connect(Path(sys.argv[1]))) as connection:
        connection.execute("PRAGMA busy_timeout = 300000")  # without the turnstile, SQLite lets a writer starve
        connection.execute("INSERT INTO cards (worker, card) VALUES (?, '')", (f"{sys.argv[2]}-{number}",))
"""


def run(code: str, home: Path, *names: str) -> None:
    """Processes with this code, all at once, one for each name."""
    started = [subprocess.Popen([sys.executable, "-c", code, str(home / "bullpen.db"), name]) for name in names]
    assert [child.wait() for child in started] == [0] * len(names)


@pytest.mark.slow
async def test_a_full_disk_can_be_written_to_for_as_long_as_it_stays_full(home: Path) -> None:
    async with Database.open(home) as database:
        await database.write(touch(0))
        fill(home.parent / "filler")
        for number in range(3000):  # many times as much as the log has room for
            assert await database.write(touch(number)) == number
        assert (home / "bullpen.db-wal").stat().st_size == reserve.LOG_BYTES


@pytest.mark.slow
async def test_a_log_that_was_at_its_end_when_the_disk_became_full_begins_again(home: Path) -> None:
    async with Database.open(home) as database:
        for number in range(450):  # two pages each: nearly all that the log keeps
            await database.write(touch(number))
        fill(home.parent / "filler")
        for number in range(500):
            assert await database.write(touch(number)) == number


@pytest.mark.slow
async def test_two_processes_write_to_a_full_disk_in_turns(home: Path) -> None:
    async with Database.open(home) as first, Database.open(home) as second:
        fill(home.parent / "filler")
        for number in range(400):
            await first.write(touch(number))
            await second.write(touch(number))
            await second.read(lambda snapshot: snapshot.execute("SELECT count(*) FROM cards").fetchone())


async def test_records_change_on_a_full_disk_and_new_ones_of_new_work_are_refused(home: Path) -> None:
    async with Database.open(home) as database:
        records = SqliteRecords(database)
        await records.apply(open_provision())
        fill(home.parent / "filler")
        for change in running("i-1"):
            await records.apply(change)
        with pytest.raises(Unavailable, match="the disk is full or nearly full") as full:
            await records.apply(open_provision("p-2"))
        assert "bullpen release" in full.value.remedy
        (home.parent / "filler").unlink()
        await records.apply(open_provision("p-2"))


async def test_a_probe_says_that_the_disk_is_full(home: Path) -> None:
    async with Database.open(home) as database:
        health, now = SqliteHealth(database), SystemClock().now()
        await health.probe(now)
        fill(home.parent / "filler")
        with pytest.raises(Unavailable, match="the disk is full or nearly full"):
            await health.probe(now)
        (home.parent / "filler").unlink()
        await health.probe(now)


@pytest.mark.slow
async def test_a_database_that_no_process_has_open_can_be_opened_and_written_on_a_full_disk(home: Path) -> None:
    for number in range(2):
        async with Database.open(home) as database:
            await database.write(touch(number))
    assert "bullpen.db-wal" not in files(home)
    fill(home.parent / "filler")
    for _ in range(3):
        async with Database.open(home) as database:
            for number in range(300):
                await database.write(touch(number))


async def test_a_log_left_by_a_killed_process_is_read_on_a_full_disk(home: Path) -> None:
    async with Database.open(home):
        pass
    run(KILLED, home, "killed")
    fill(home.parent / "filler")
    async with Database.open(home) as database:
        assert await database.read(lambda tx: tx.execute("SELECT worker FROM cards").fetchall()) == [("killed",)]
        await database.write(touch(1))


async def test_what_is_reserved_outlives_the_last_connection_and_is_used_again(tmp_path: Path) -> None:
    async with Database.open(tmp_path):
        pass
    kept = ["bullpen.db", "bullpen.db-reserve", "bullpen.db-spare"]
    for number in range(3):
        before = (tmp_path / "bullpen.db-reserve").stat().st_ino if number else None
        async with Database.open(tmp_path) as database:
            await database.write(touch(number))
            log, reserved = ((tmp_path / f"bullpen.db-{name}").stat() for name in ("wal", "reserve"))
            assert log.st_ino == reserved.st_ino == (before or log.st_ino)
            assert log.st_blocks * 512 >= reserve.LOG_BYTES
        assert files(tmp_path) == kept
    with closing(sqlite3.connect(tmp_path / "bullpen.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_log_of_an_earlier_life_is_never_read_again(tmp_path: Path) -> None:
    """A program that knows no reserve writes in between, and makes a log of its own."""
    for number in range(2):
        async with Database.open(tmp_path) as database:
            await database.write(touch(number))
    with closing(sqlite3.connect(tmp_path / "bullpen.db", isolation_level=None)) as stranger:
        stranger.execute("DELETE FROM cards")
        stranger.execute("INSERT INTO cards (worker, card) VALUES ('stranger', '')")
    async with Database.open(tmp_path) as database:
        assert await database.read(lambda tx: tx.execute("SELECT worker FROM cards").fetchall()) == [("stranger",)]


async def test_a_log_that_was_moved_away_with_its_database_is_left_as_it_is(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    backup.mkdir()
    async with Database.open(home):
        pass
    run(KILLED, home, "kept")
    for name in ("bullpen.db", "bullpen.db-wal"):
        os.rename(home / name, backup / name)
    for _ in range(2):
        async with Database.open(home) as database:
            await database.write(touch(1))
    with closing(sqlite3.connect(backup / "bullpen.db")) as connection:
        assert connection.execute("SELECT worker FROM cards").fetchall() == [("kept",)]


@pytest.mark.slow
async def test_processes_that_open_and_close_at_once_lose_nothing(tmp_path: Path) -> None:
    async with Database.open(tmp_path):
        pass
    run(BUSY, tmp_path, *"abcd")
    async with Database.open(tmp_path) as database:
        assert await database.read(lambda tx: tx.execute("SELECT count(*) FROM cards").fetchone()) == (160,)
        assert await database.read(lambda tx: tx.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]


async def test_free_pages_that_were_used_are_replaced_while_there_is_room(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        await database.write(lambda tx: tx.execute("INSERT INTO cards VALUES ('big', ?)", ("x" * 1_000_000,)).rowcount)
        (free,) = await database.read(lambda tx: tx.execute("PRAGMA freelist_count").fetchone())
        assert free < reserve.FEWEST_FREE_PAGES
    async with Database.open(tmp_path) as database:
        (free,) = await database.read(lambda tx: tx.execute("PRAGMA freelist_count").fetchone())
        assert free >= reserve.FEWEST_FREE_PAGES
        assert await database.read(lambda tx: tx.execute("SELECT count(*) FROM slack").fetchone()) == (0,)


async def test_a_reserve_whose_log_is_removed_while_it_is_looked_at_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the last connection of another process. On a full disk its blocks would be lost."""
    async with Database.open(tmp_path) as database:
        await database.write(touch(0))
    log, kept = tmp_path / "bullpen.db-wal", tmp_path / "bullpen.db-reserve"
    os.link(kept, log)

    def removed(name: Path) -> Path:
        log.unlink(missing_ok=True)
        return log

    before = os.open(kept, os.O_RDONLY)  # so that its number is not given out again
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(reserve, "_size", lambda path: 1)
        meanwhile.setattr(reserve, "_log_of", removed)
        reserve.prepare(tmp_path / "bullpen.db")
    assert os.path.samestat(os.fstat(before), kept.stat())
    assert log.samefile(kept)
    os.close(before)
