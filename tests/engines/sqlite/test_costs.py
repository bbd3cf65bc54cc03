"""Queries cost what they find, whatever the history. Counted in steps of SQLite's machine, never in seconds."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from builders import (
    NOW,
    a_signal,
    abort,
    buried,
    claim,
    cleaning,
    expire,
    later,
    needs,
    on_offer,
    open_provision,
    running,
)
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.jobs import SqliteJobs
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.signals import SqliteSignals
from bullpen.engines.sqlite.workers import SqliteWorkers
from bullpen.engines.sqlite.writer import Transaction
from bullpen.model.signal import Heartbeat, Kind
from conformance.landing import land, land_all
from conformance.leases import a_beat, accepted, assigned, clean_up, finish, lost, settle, submit
from engines.sqlite.plans import plans_checked

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]


async def test_eight_thousand_terminated_records_cost_no_call_a_single_step(tmp_path: Path) -> None:
    assert await _costs(tmp_path / "old", dead=8000) == await _costs(tmp_path / "new", dead=1)


async def test_a_statement_that_walks_a_table_is_noticed(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        watch = plans_checked(database.path)
        watch.__enter__()
        await database.read(
            lambda snapshot: snapshot.execute("SELECT id FROM instances WHERE cpu = ?", (1,)).fetchall()
        )
        with pytest.raises(AssertionError, match="SCAN instances"):
            watch.__exit__(None, None, None)


async def _costs(home: Path, dead: int) -> dict[str, int]:
    """Steps of each call on a small pool beside `dead` terminated records."""
    async with Database.open(home) as database:
        records, signals = SqliteRecords(database), SqliteSignals(database)
        await land(records, buried("i-dead-1", purge_at=later(9000)))
        await database.write(lambda transaction: _bury(transaction, dead))
        pool = await land_all(records, [on_offer(f"i-{number}") for number in range(20)])
        await land_all(records, [running(f"i-a{number}") for number in range(5)])
        await land_all(records, [cleaning(f"i-b{number}") for number in range(5)])
        (provision,) = await records.apply(open_provision())
        await signals.report(a_signal(pool[0], Kind.OK))
        workers, jobs = SqliteWorkers(database), SqliteJobs(database)
        await _leave_behind(records, workers, dead)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "instances": lambda: records.instances(["i-0", "i-1"]),
            "provision": lambda: records.provision("p-1"),
            "run_instances": lambda: records.run_instances("run-1"),
            "served_runs": lambda: records.served_runs(10),
            "run_provisions": lambda: records.run_provisions("run-1"),
            "claimable": lambda: records.claimable(needs(), NOW, 5, "i-3"),
            "pending": lambda: records.pending("small", 10),
            "owing_instances": lambda: records.owing_instances(later(5000), 50),
            "due_provisions": lambda: records.due_provisions(later(5000), 50),
            "open_provisions": lambda: records.open_provisions("small"),
            "waiting_provisions": lambda: records.waiting_provisions(50),
            "ahead": lambda: records.ahead(50),
            "pauses": records.pauses,
            "rotations": records.rotations,
            "live": lambda: records.live(50),
            "count": records.count,
            "stories": lambda: records.stories(["i-0"]),
            "read": lambda: signals.read(["i-0"]),
            "report": lambda: signals.report(a_signal(pool[0], Kind.CLEAN_OK, seq=2)),
            "beat": lambda: signals.beat(Heartbeat("i-0", NOW, 1)),
            "claim": lambda: records.apply(claim(pool[1])),
            "lost claim": lambda: records.apply_each([claim(pool[1])]),
            "expire": lambda: records.apply(expire(pool[2])),
            "abort": lambda: records.apply(abort(provision)),
            "purge": lambda: records.purge(NOW, 10),
            "beat of a worker": lambda: workers.beat([("alive", a_beat(1))]),
            "first beat": lambda: workers.beat([("new", a_beat())]),
            "workers": lambda: workers.workers(["alive"]),
            "rearm": lambda: workers.rearm(later(60), 10),
            "suspects": lambda: workers.suspects(later(60), 10),
            "to_clean": lambda: workers.to_clean(later(60), 10),
            "owing": lambda: workers.owing(10),
            "listed": lambda: workers.listed(10),
            "census": workers.census,
            "cards": lambda: workers.cards(["alive"]),
            "jobs": lambda: jobs.jobs(["j-alive"]),
            "queued": lambda: jobs.queued("run-1", NOW, 10),
            "runners_used": lambda: jobs.runners_used("run-2", NOW, 10),
            "held": lambda: jobs.held("alive", 9, 10),
            "unverified": lambda: jobs.unverified(later(60), 10),
            "waiting_runs": lambda: jobs.waiting_runs(10),
            "of_run": lambda: jobs.of_run("run-2", 10),
        }
        with plans_checked(database.path):
            return {name: await _steps(database, call) for name, call in calls.items()}


async def _leave_behind(records: SqliteRecords, workers: SqliteWorkers, dead: int) -> None:
    """A worker and a job that are alive, and as many as asked that are over but not purged."""
    await accepted(workers, "alive")
    await records.apply(submit("j-alive"))
    for number in range(min(dead, 200)):
        (tombstone,) = await records.apply(clean_up(await lost(records, workers, f"dead-{number:04}"), later(9000)))
        await records.apply(settle(tombstone))
        await records.apply(finish(await assigned(records, f"j-dead-{number:04}"), later(9000)))
    await workers.rearm(later(60), 1000)  # sweepers do so every second: timers of the lost are off the list


def _bury(transaction: Transaction, dead: int) -> None:
    """Copies of `i-dead-1`, until there are so many. A thousand times faster than walking each there."""
    columns = [name for _, name, *_ in transaction.execute("SELECT * FROM pragma_table_info('instances')").fetchall()]
    copied = ", ".join("'i-dead-' || number" if name == "id" else name for name in columns)
    transaction.execute(
        "WITH RECURSIVE numbers (number) AS (SELECT 2 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?)"
        f" INSERT INTO instances ({', '.join(columns)})"
        f" SELECT {copied} FROM numbers JOIN instances ON id = 'i-dead-1' WHERE number <= ?",
        (dead, dead),
    )


async def _steps(database: Database, call: Callable[[], Awaitable[object]]) -> int:
    steps = [0]

    def count_one() -> int:
        steps[0] += 1
        return 0

    def watch(snapshot: Snapshot) -> None:
        snapshot.execute("PRAGMA user_version").connection.set_progress_handler(count_one, 1)

    def unwatch(snapshot: Snapshot) -> None:
        snapshot.execute("PRAGMA user_version").connection.set_progress_handler(None, 1)

    await database.read(watch)
    await database.write(watch)
    await call()
    await database.read(unwatch)
    await database.write(unwatch)
    return steps[0]
