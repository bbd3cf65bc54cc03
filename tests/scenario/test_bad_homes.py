"""Homes that cannot be used, or are full of surprises: a clear error or a defined outcome, and nothing changed."""

import asyncio
import fcntl
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders import messages
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.notify import socket_directory
from bullpen.engines.sqlite.queue import SqliteQueue
from bullpen.engines.system import SystemClock
from scenario.pool import Pool
from scenario.test_everyday import ids
from scenario.test_racing import stock


def refused(pool: Pool, code: int = 2) -> str:
    """What every command says about a home that it cannot use, on stderr and as the reason in its answer."""
    commands = [pool.start_provision("run-1", 1), pool.start("refresh", "--json")]
    if pool.home.exists():  # a release makes no home: without one there is nothing to refuse
        commands.append(pool.start("release", "--run-id", "run-1", "--json"))
    reasons: list[str] = []
    for command in commands:
        ran = command.wait()
        assert ran.code == code, ran
        assert "Traceback" not in ran.err
        assert ran.answer["state"] == "failed"
        assert ran.answer["remedy"]
        assert str(pool.home) in ran.answer["reason"]
        reasons.append(ran.answer["reason"])
    return reasons[0]


def test_a_home_that_is_a_file_is_refused(pool: Pool) -> None:
    pool.home.write_text("mine")
    refused(pool)
    assert pool.home.read_text() == "mine"


def test_a_home_that_cannot_be_written_is_refused(pool: Pool) -> None:
    pool.home = Path("/proc/bullpen")  # not even root can make directories there
    refused(pool)


@pytest.mark.parametrize("content", [b"", b"no database at all" * 1000])
def test_a_corrupt_database_is_refused_and_left_alone(pool: Pool, content: bytes) -> None:
    pool.home.mkdir()
    file = pool.home / "bullpen.db"
    file.write_bytes(content)
    if content:
        assert "bullpen.db" in refused(pool)
        assert file.read_bytes() == content
    else:  # what a crash at the very first moment leaves is as good as nothing
        pool.provision("run-1", 1)


def test_a_database_that_broke_later_is_refused_without_a_traceback(pool: Pool) -> None:
    stock(pool, 1)
    pool.run("down", "--yes")
    file = pool.home / "bullpen.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    broken = file.read_bytes()
    file.write_bytes(broken[:100] + b"\xff" * (len(broken) - 100))
    assert "bullpen.db" in refused(pool)


def test_a_newer_schema_is_refused_by_its_number(pool: Pool) -> None:
    stock(pool, 1)
    with closing(sqlite3.connect(pool.home / "bullpen.db")) as connection:
        ((own,),) = connection.execute("PRAGMA user_version").fetchall()
        connection.execute("PRAGMA user_version = 99")
    assert "version 99" in refused(pool)
    with closing(sqlite3.connect(pool.home / "bullpen.db")) as connection:
        connection.execute(f"PRAGMA user_version = {own}")
    assert pool.provision("run-1", 1)["created"] == 0


def test_a_database_of_another_program_is_refused(pool: Pool) -> None:
    pool.home.mkdir()
    with closing(sqlite3.connect(pool.home / "bullpen.db")) as connection:
        connection.execute("CREATE TABLE theirs (id)")
    refused(pool)


def test_a_locked_home_makes_commands_give_up_with_a_retry_later(pool: Pool) -> None:
    stocked = stock(pool, 1)
    with open(pool.home / "turn.lock") as turn, open(pool.home / "db.lock") as db:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(db, fcntl.LOCK_EX)
        command = pool.start_provision("run-1", 1)
        ran = command.wait()
        assert ran.code == 75, ran
        assert ran.answer["state"] == "failed"
        assert str(pool.home) in ran.answer["reason"]
        assert pool.run("status", "--json").code == 0, "reading needs no lock"
    assert pool.provision("run-1", 1)["created"] == 0
    assert pool.live() == stocked
    pool.settle()
    assert pool.audit() == []


def test_a_home_with_a_very_long_path_works(pool: Pool) -> None:
    pool.home = pool.folder / ("deep" * 50) / ("down" * 50)
    cold = pool.provision("run-1", 1)
    pool.release("run-1")
    assert ids(pool.provision("run-2", 1)) == ids(cold)
    assert pool.audit() == []
    pool.run("down", "--yes")
    shutil.rmtree(socket_directory(pool.home))


def plant(pool: Pool, *bodies: str) -> None:
    asyncio.run(_plant(pool, bodies))


async def _plant(pool: Pool, bodies: tuple[str, ...]) -> None:
    async with Database.open(pool.home) as database:
        await SqliteQueue(database, SystemClock()).send("small", messages(bodies))


def a_ticket(id: str, **changed: object) -> str:
    until = (datetime.now(UTC) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields: dict[str, object] = {
        "instanceId": id,
        "usageClass": "on-demand",
        "instanceType": "local.small",
        "cpu": 1,
        "mem": 1024,
        "resourceClass": "small",
        "threshold": until,
        "version": 5,
        "trustDomain": "default",
        "imageGeneration": 1,
    }
    return json.dumps(fields | changed)


SURPRISES: dict[str, Callable[[str], str]] = {
    "not JSON": lambda id: "{",
    "no object": lambda id: "[1, 2]",
    "empty": lambda id: "",
    "too large": lambda id: a_ticket(id, padding="x" * 100_000),
    "deeply nested": lambda id: "[" * 100_000,
    "of a stranger": lambda id: a_ticket("i-ffffffffffffffff"),
    "of another class": lambda id: a_ticket(id, resourceClass="large"),
    "expired": lambda id: a_ticket(id, threshold="2001-01-01T00:00:00Z"),
    "from the past": lambda id: a_ticket(id, version=1),
    "from the future": lambda id: a_ticket(id, version=2**52),
    "with a forged domain": lambda id: a_ticket(id, trustDomain=""),
    "with half a character": lambda id: a_ticket("\ud800"),
}


@pytest.mark.parametrize("surprise", SURPRISES)
def test_a_ticket_is_only_a_hint(pool: Pool, surprise: str) -> None:
    """The instance that is really on offer is found, whatever else lies before it in the queue."""
    stocked = stock(pool, 1)
    (real,) = [body for (body,) in pool.rows("SELECT body FROM tickets")]
    with closing(sqlite3.connect(pool.home / "bullpen.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM tickets")
    body = SURPRISES[surprise](stocked[0])
    plant(pool, body, body, body, real)
    answer = pool.provision("run-1", 1)
    assert (answer["created"], ids(answer)) == (0, stocked)
    pool.release("run-1")
    assert pool.audit() == []


def test_a_forged_ticket_brings_no_run_an_instance_of_another_domain(pool: Pool) -> None:
    (theirs,) = stock(pool, 1, "--trust-domain", "forks")
    ((version,),) = pool.rows("SELECT version FROM instances WHERE id = ?", theirs)
    plant(pool, a_ticket(theirs, version=version, trustDomain="default"))
    answer = pool.provision("run-1", 1)
    assert (answer["created"], theirs in ids(answer)) == (1, False)
    assert theirs in pool.on_offer()
    assert pool.audit() == []
