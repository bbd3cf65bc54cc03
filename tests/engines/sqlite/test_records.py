"""What the records on SQLite promise beyond the port: wake-ups, named refusals, one commit for many changes."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from builders import (
    Walk,
    abort,
    adopt,
    claim,
    cleaning,
    later,
    on_offer,
    open_provision,
    register,
    registered,
)
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.notify import Listener
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.turnstile import connect
from bullpen.errors import Conflict, Refused
from bullpen.model.instance import Instance
from bullpen.model.times import to_micros
from conformance.landing import land

pytestmark = pytest.mark.real_loop


async def landed(home: Path, *walks: Walk) -> list[Instance]:
    """Records brought there by a process that has ended: every wake-up of its own has been sent."""
    async with Database.open(home) as database:
        return [await land(SqliteRecords(database), walk) for walk in walks]


async def test_the_agent_is_woken_after_the_commit_and_finds_the_row(tmp_path: Path) -> None:
    (offered,) = await landed(tmp_path, on_offer())
    async with Database.open(tmp_path) as database:
        agent, listener = connect(database.path), Listener(database.sockets, "i-1")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[tuple[str]]] = loop.create_future()

        def look() -> None:
            loop.remove_reader(listener.fileno())
            found.set_result(agent.execute("SELECT state FROM instances WHERE id = 'i-1'").fetchall())

        loop.add_reader(listener.fileno(), look)
        await SqliteRecords(database).apply(claim(offered))
        async with asyncio.timeout(120):
            assert await found == [("claimed",)]
        listener.close()
        agent.close()


async def test_no_agent_is_woken_by_a_conflict(tmp_path: Path) -> None:
    (mine,) = await landed(tmp_path, on_offer())
    async with Database.open(tmp_path) as database:
        listener = Listener(database.sockets, "i-1")
        moved = replace(mine, version=mine.version + 1)
        with pytest.raises(Conflict):
            await SqliteRecords(database).apply(claim(moved))
        await database.close()  # every wake-up has been sent by now
        assert listener.drain() == []
        listener.close()


@pytest.mark.parametrize("what", ["offer", "decision"])
async def test_an_offer_or_a_decision_wakes_the_control_plane(tmp_path: Path, what: str) -> None:
    (created,) = await landed(tmp_path, registered())
    async with Database.open(tmp_path) as database:
        records = SqliteRecords(database)
        (provision,) = await records.apply(open_provision())
        listener = Listener(database.sockets, "ctl.test")
        await records.apply(adopt(created) if what == "offer" else abort(provision))
        await database.close()
        assert listener.drain() == [b""]
        listener.close()


async def test_a_claim_of_an_uncleaned_instance_is_refused_by_name_even_without_its_guards(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        records = SqliteRecords(database)
        dirty = await land(records, cleaning())
        change = replace(claim(replace(dirty, attested=True, trust_domain="")), guards=())
        with pytest.raises(Refused, match=r"i-1: claim .* can only be offered or expired"):
            await records.apply(change)
        assert await records.instances(["i-1"]) == {"i-1": dirty}


async def test_a_record_that_breaks_a_check_is_refused_and_leaves_the_others_of_its_batch_alone(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        records = SqliteRecords(database)
        broken, sound = register("i-1"), register("i-2")
        broken = replace(broken, after=replace(broken.after, attested=True))
        with pytest.raises(Refused, match="i-1: register"):
            await records.apply_each([broken, sound])
        assert list(await records.instances(["i-1", "i-2"])) == ["i-2"]


async def test_the_due_time_follows_the_record_even_where_a_ticket_cut_the_threshold(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        records = SqliteRecords(database)
        offered = await land(records, on_offer(threshold=later(420.5)))
        ticket = replace(offered.ticket(), threshold=later(420))
        (claimed,) = await records.apply(claim(Instance.from_ticket(ticket), until=later(420)))
        stored = await database.read(lambda tx: tx.execute("SELECT threshold, due_at FROM instances").fetchall())
        assert claimed.threshold == later(420)
        assert stored == [(to_micros(later(420)), to_micros(later(420)))]


async def test_requirements_stored_before_there_was_a_fallback_are_read(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        records = SqliteRecords(database)
        await records.apply(open_provision("p-1"))
        older = "UPDATE provisions SET needs = json_remove(needs, '$.fallback') WHERE needs LIKE '%fallback%'"
        assert await database.write(lambda tx: tx.execute(older).rowcount) == 1
        found = await records.provision("p-1")
        assert found is not None
        assert found.needs == open_provision("p-1").after.needs
        assert found.needs.fallback is None


async def test_fifty_changes_of_apply_each_are_one_transaction(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        records = SqliteRecords(database)
        watcher = connect(database.path)
        version = watcher.execute("PRAGMA data_version").fetchone()[0]
        await records.apply_each([register(f"i-{number}") for number in range(50)])
        assert watcher.execute("PRAGMA data_version").fetchone()[0] == version + 1
        watcher.close()
