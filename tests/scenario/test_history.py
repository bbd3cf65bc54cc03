"""Thousands of ended records change neither what a release finds nor, noticeably, what it reads."""

import asyncio
from collections.abc import Callable
from typing import Any

from builders import Walk, conclude, decide, done, expire, later, open_provision, registered, settle
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from conformance.landing import land_all
from scenario.pool import Pool
from scenario.test_everyday import ids

ENDED = 8000
PROVISIONS = 800
ROUNDS = 9


def ended(number: int) -> Walk:
    """An instance of the very run that is released, created and ended long ago, not yet purged."""
    walk = registered(f"i-{number:016x}", run_id="nightly", trust_domain="default")
    walk.append(expire(walk[-1].after))
    return [*walk, done(walk[-1].after, purge_at=later(9000))]


async def give_a_past(pool: Pool) -> None:
    async with Database.open(pool.home) as database:
        records = SqliteRecords(database)
        await land_all(records, [ended(number) for number in range(ENDED)])
        # Each was a member of one of the provisions that the run had, and has been released from.
        landed: list[Any] = await records.apply_each(
            [open_provision(f"p-{n:016x}", run_id="nightly") for n in range(PROVISIONS)]
        )
        members = [[f"i-{n:016x}" for n in range(at, ENDED, PROVISIONS)] for at in range(PROVISIONS)]
        landed = await records.apply_each([decide(one, *ids) for one, ids in zip(landed, members, strict=True)])
        for step in (settle, conclude, settle):
            landed = await records.apply_each([step(one) for one in landed])


def test_eight_thousand_ended_records_change_neither_what_release_finds_nor_its_cost(
    pools: Callable[[], Pool],
) -> None:
    young, old = pools(), pools()
    counts = old.folder / "sqlite-work"
    counted = {"SQLITE_WORK": str(counts)}
    asyncio.run(give_a_past(old))
    work: dict[str, list[int]] = {"young": [], "old": []}
    for _ in range(ROUNDS):
        for name, pool in (("young", young), ("old", old)):
            members = ids(pool.provision("nightly", 5))
            ran = pool.start("release", "--run-id", "nightly", "--json", environ=counted).wait()
            assert ran.code == 0, ran
            assert sorted(ran.answer["offered"]) == members
            work[name].append(int(counts.read_text()))
    assert len(old.ids("terminated")) == ENDED
    assert old.audit() == []
    # The least of each: a release that waits for a busy machine looks at the database more often.
    assert min(work["old"]) <= 2 * min(work["young"]), work
