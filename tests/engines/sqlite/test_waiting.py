"""Waiting for changes: woken by datagrams, with a poll for lost ones, and not by the process's own writes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bullpen.engines.sqlite import database
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.notify import Listener
from bullpen.engines.sqlite.writer import Transaction

pytestmark = pytest.mark.real_loop

LONG = 30.0  # no test waits for it to pass


@asynccontextmanager
async def two_databases(home: Path) -> AsyncIterator[tuple[Database, Database]]:
    script = home / "schema.sql"
    script.write_text("CREATE TABLE thing (id INTEGER PRIMARY KEY);")
    async with Database.open(home, [script]) as ours, Database.open(home, [script]) as theirs:
        yield ours, theirs


def quietly(tx: Transaction) -> None:
    tx.execute("INSERT INTO thing DEFAULT VALUES")


def waking(tx: Transaction) -> None:
    quietly(tx)
    tx.wake_control()


async def test_a_commit_that_wakes_ends_the_wait_without_the_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "POLL", LONG)
    async with two_databases(tmp_path) as (ours, theirs):
        wait = asyncio.ensure_future(ours.wakes().wait(LONG))
        await asyncio.sleep(0)
        await theirs.write(waking)
        assert await asyncio.wait_for(wait, LONG / 2)


async def test_a_commit_without_a_wake_is_found_by_the_poll(tmp_path: Path) -> None:
    async with two_databases(tmp_path) as (ours, theirs):
        wait = asyncio.ensure_future(ours.wakes().wait(LONG))
        await asyncio.sleep(0)
        await theirs.write(quietly)
        assert await asyncio.wait_for(wait, LONG / 2)


async def test_what_happened_between_two_waits_ends_the_second_at_once(tmp_path: Path) -> None:
    async with two_databases(tmp_path) as (ours, theirs):
        wakes = ours.wakes()
        for _ in range(3):
            await theirs.write(waking)
            assert await wakes.wait(LONG)


async def test_one_waiter_does_not_take_the_wake_of_another(tmp_path: Path) -> None:
    async with two_databases(tmp_path) as (ours, theirs):
        first, second = ours.wakes(), ours.wakes()
        await theirs.write(waking)
        assert await first.wait(LONG)
        assert await second.wait(LONG)


async def test_a_commit_of_another_process_since_opening_counts_even_without_a_listener(tmp_path: Path) -> None:
    async with two_databases(tmp_path) as (ours, theirs):
        await theirs.write(quietly)
        assert await ours.wakes().wait(LONG)


async def test_commits_of_the_process_that_wake_nothing_do_not_end_its_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "POLL", 0.001)
    async with two_databases(tmp_path) as (ours, _):
        wakes = ours.wakes()
        await ours.write(quietly)
        assert not await wakes.wait(0.05)


async def test_commits_that_wake_end_the_other_waits_of_the_process(tmp_path: Path) -> None:
    async with two_databases(tmp_path) as (ours, _):
        wakes = ours.wakes()
        await ours.write(waking)
        assert await wakes.wait(LONG)


async def test_an_instance_is_woken_after_the_commit_and_only_if_it_lands(tmp_path: Path) -> None:
    async with two_databases(tmp_path) as (ours, _):
        landed, failed, marker = (Listener(ours.sockets, name) for name in ("i-landed", "i-failed", "i-marker"))

        def fail(tx: Transaction) -> None:
            tx.wake("i-failed")
            raise ZeroDivisionError

        def land(tx: Transaction) -> None:
            tx.wake("i-landed", b"look")
            tx.wake("i-landed", b"look")

        with pytest.raises(ZeroDivisionError):
            await ours.write(fail)
        await ours.write(land)
        await ours.write(lambda tx: tx.wake("i-marker"))
        arrived = asyncio.Event()
        asyncio.get_running_loop().add_reader(marker.fileno(), arrived.set)
        await asyncio.wait_for(arrived.wait(), LONG)
        asyncio.get_running_loop().remove_reader(marker.fileno())
        assert landed.drain() == [b"look"]
        assert failed.drain() == []
        for listener in (landed, failed, marker):
            listener.close()
