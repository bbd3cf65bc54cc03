"""Writes that share a commit, reads that see them, and what happens when the disk or the system fails."""

import asyncio
import os
import resource
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bullpen.engines.sqlite import reserve, writer
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.turnstile import Turnstile, connect
from bullpen.engines.sqlite.writer import Transaction
from bullpen.errors import ConfigError, Unavailable

pytestmark = pytest.mark.real_loop


@pytest.fixture
def scripts(tmp_path: Path) -> list[Path]:
    (tmp_path / "schema.sql").write_text("CREATE TABLE thing (id INTEGER PRIMARY KEY, body BLOB);")
    return [tmp_path / "schema.sql"]


def insert(number: int, body: bytes = b"") -> Callable[[Transaction], int]:
    def run(tx: Transaction) -> int:
        tx.execute("INSERT INTO thing VALUES (?, ?)", (number, body))
        return number

    return run


def insert_and_fail(number: int) -> Callable[[Transaction], int]:
    def run(tx: Transaction) -> int:
        insert(number)(tx)
        raise ZeroDivisionError

    return run


def things(snapshot: Snapshot) -> list[int]:
    return [number for (number,) in snapshot.execute("SELECT id FROM thing ORDER BY id")]


async def test_a_read_sees_every_write_awaited_before(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts) as db:
        for number in range(5):
            assert await db.write(insert(number)) == number
            assert await db.read(things) == list(range(number + 1))


async def test_the_log_is_written_back_beside_the_writes_and_begins_again(
    tmp_path: Path, scripts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "WRITTEN_BACK_AFTER", 10)
    log = tmp_path / "bullpen.db-wal"
    async with Database.open(tmp_path, scripts) as db:
        await db.write(insert(0))
        began = log.read_bytes()[12:16]  # how often the log has begun
        written = 0
        while log.read_bytes()[12:16] == began:
            written += 1
            await db.write(insert(written))
            assert written < 3000, "SQLite itself would write it back by now"
        assert written > 10
        assert await db.read(things) == list(range(written + 1))


async def test_a_database_closes_though_another_process_holds_the_turnstile(
    tmp_path: Path, scripts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "WRITTEN_BACK_AFTER", 0)
    monkeypatch.setattr(writer, "REST_WITHIN", 0.01)
    async with Database.open(tmp_path, scripts) as db:
        for number in range(2):  # the writer starts the thread of the checkpointer between the two
            await db.write(insert(number))
        checkpointer = db._writer._checkpointer
        checkpointer._turnstile = Turnstile(tmp_path, patience=3600.0)
        with Turnstile(tmp_path).hold():
            checkpointer.ask()
            async with asyncio.timeout(60):
                await asyncio.to_thread(checkpointer.stop)


async def test_a_process_that_opens_a_home_again_and_again_keeps_one_descriptor_of_it(
    tmp_path: Path, scripts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "WRITTEN_BACK_AFTER", 0)
    counts = set()
    for number in range(4):
        async with Database.open(tmp_path, scripts) as db:
            await db.write(insert(number))
        counts.add(sum(os.readlink(f"/proc/self/fd/{fd}").endswith("bullpen.db") for fd in _descriptors()))
    assert counts == {1}


def _descriptors() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]


async def test_a_failing_write_in_a_group_is_undone_alone(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts) as db:
        with Turnstile(tmp_path).hold():  # keeps the writer waiting, so that all five share its turn
            writes = [
                asyncio.ensure_future(db.write(insert_and_fail(n) if n in (1, 3) else insert(n))) for n in range(5)
            ]
            await asyncio.sleep(0)
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [int, ZeroDivisionError, int, ZeroDivisionError, int]
        assert await db.read(things) == [0, 2, 4]


async def test_writes_that_wait_share_one_commit(
    tmp_path: Path, scripts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROUP_LASTS", 60.0)  # however busy the machine, one group takes all of them
    async with Database.open(tmp_path, scripts) as db:
        other = connect(db.path)
        (before,) = other.execute("PRAGMA data_version").fetchone()
        seen: list[list[int]] = []

        def insert_and_look(number: int) -> Callable[[Transaction], None]:
            def run(tx: Transaction) -> None:
                insert(number)(tx)
                seen.append(things(Snapshot(other)))

            return run

        with Turnstile(tmp_path).hold():
            writes = [asyncio.ensure_future(db.write(insert_and_look(number))) for number in range(20)]
            await asyncio.sleep(0)
        await asyncio.gather(*writes)
        assert seen == [[]] * 20, "nothing is visible to others before the one commit"
        assert other.execute("PRAGMA data_version").fetchone() != (before,)
        other.close()


async def test_a_cancelled_awaiters_write_lands_whole(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts) as db:
        with Turnstile(tmp_path).hold():
            cancelled = asyncio.ensure_future(db.write(insert(1)))
            other = asyncio.ensure_future(db.write(insert(2)))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        assert await other == 2
        assert await db.read(things) == [1, 2]


async def test_closing_writes_what_is_waiting(tmp_path: Path, scripts: list[Path]) -> None:
    db = Database.open(tmp_path, scripts)
    writes = [asyncio.ensure_future(db.write(insert(number))) for number in range(50)]
    await asyncio.sleep(0)
    await db.close()
    assert await asyncio.gather(*writes) == list(range(50))
    async with Database.open(tmp_path, scripts) as again:
        assert await again.read(things) == list(range(50))


async def test_closing_leaves_no_thread_and_no_socket(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts) as db:
        db.wakes()
        await db.write(insert(1))
        await db.read(things)
    assert not [thread for thread in threading.enumerate() if thread.name in ("bullpen-writer", "bullpen-reader")]
    assert list(db.sockets.iterdir()) == []
    with pytest.raises(RuntimeError, match="closed"):
        await db.read(things)


async def test_opening_starts_no_thread(tmp_path: Path, scripts: list[Path]) -> None:
    before = threading.active_count()
    db = Database.open(tmp_path, scripts)
    assert threading.active_count() == before
    await db.close()


async def test_two_databases_of_one_process_take_turns(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts) as one, Database.open(tmp_path, scripts) as two:
        await asyncio.gather(*((one, two)[number % 2].write(insert(number)) for number in range(100)))
        assert await one.read(things) == await two.read(things) == list(range(100))


async def test_a_reader_cannot_write(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts) as db:
        with pytest.raises(ConfigError):
            await db.read(lambda snapshot: snapshot.execute("INSERT INTO thing VALUES (1, '')"))
        assert await db.read(things) == []


async def test_mistakes_of_the_program_come_through_as_they_are(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts) as db:
        await db.write(insert(1))
        with pytest.raises(sqlite3.IntegrityError):
            await db.write(insert(1))
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await db.read(lambda snapshot: snapshot.execute("SELECT * FROM missing"))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await db.write(lambda tx: next(tx.execute("SELECT 1 WHERE 0")))


async def test_a_full_disk_is_unavailable_and_the_database_lives_on(
    tmp_path: Path, scripts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_to_what_cannot_grow(path: Path) -> sqlite3.Connection:
        """A full disk is met again with every connection."""
        connection = connect(path)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    async with Database.open(tmp_path, scripts) as db:
        await db.write(insert(1))
        await db.write(insert(0, b"x" * 4096 * reserve.FREE_PAGES))  # what it keeps for such a day is used up
        (pages,) = await db.write(lambda tx: tx.execute("PRAGMA page_count").fetchone())
        await db.write(lambda tx: tx.execute(f"PRAGMA max_page_count = {pages}").fetchone())
        monkeypatch.setattr(writer, "connect", connect_to_what_cannot_grow)
        with pytest.raises(Unavailable, match="disk is full") as full:
            await db.write(insert(2, b"x" * 100_000))
        assert "Free space" in full.value.remedy
        assert await db.write(insert(3)) == 3
        assert await db.read(things) == [0, 1, 3]


async def test_a_commit_that_the_system_refuses_is_unavailable_and_the_database_lives_on(
    tmp_path: Path, scripts: list[Path]
) -> None:
    async with Database.open(tmp_path, scripts) as db:
        await db.write(insert(1))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        try:
            with pytest.raises(Unavailable, match=str(db.path)):
                await db.write(insert(2, b"x" * 100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert await db.write(insert(3)) == 3
        assert await db.read(things) == [1, 3]


async def test_a_commit_that_fails_raises_for_the_whole_group_and_writes_nothing(
    tmp_path: Path, scripts: list[Path]
) -> None:
    (tmp_path / "schema.sql").write_text(
        "CREATE TABLE thing (id INTEGER PRIMARY KEY, body BLOB);"
        "CREATE TABLE child (id REFERENCES thing (id) DEFERRABLE INITIALLY DEFERRED);"
    )
    async with Database.open(tmp_path, scripts) as db:
        with Turnstile(tmp_path).hold():
            good = asyncio.ensure_future(db.write(insert(1)))
            bad = asyncio.ensure_future(db.write(lambda tx: tx.execute("INSERT INTO child VALUES (9)")))
            await asyncio.sleep(0)
        outcomes = await asyncio.gather(good, bad, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [sqlite3.IntegrityError] * 2
        assert await db.read(things) == []
        assert await db.write(insert(2)) == 2


async def test_a_lock_held_for_too_long_is_unavailable(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts, patience=0.01) as db:
        with Turnstile(tmp_path).hold(), pytest.raises(Unavailable, match="locked by another process"):
            await db.write(insert(1))
        while True:
            try:
                assert await db.write(insert(2)) == 2
                break
            except Unavailable:  # its place in line is only now being given back
                continue
        assert await db.read(things) == [2]


async def test_a_forked_child_must_open_its_own_database_and_can(tmp_path: Path, scripts: list[Path]) -> None:
    async with Database.open(tmp_path, scripts) as db:
        wakes = db.wakes()
        await db.write(insert(1))
        child = os.fork()
        if child == 0:
            os._exit(_in_the_child(db, tmp_path, scripts))
        assert _exit_code_of(child) == 0
        await db.write(insert(3))
        assert await db.read(things) == [1, 2, 3]
        while await wakes.wait(0.02):  # the child's commit
            pass
        await db.write(lambda tx: tx.wake_control())
        assert await wakes.wait(30), "the child's close has left the parent's ears alone"


def _exit_code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _in_the_child(db: Database, home: Path, scripts: list[Path]) -> int:
    async def use_both() -> None:
        with pytest.raises(RuntimeError, match="opened in another process"):
            await db.write(insert(9))
        await db.close()
        async with Database.open(home, scripts) as own:
            await own.write(insert(2))

    try:
        asyncio.events._set_running_loop(None)
        asyncio.run(use_both())
    except BaseException:
        return 1
    return 0
