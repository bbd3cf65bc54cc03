"""Thousands of ended records change neither what a release finds nor, noticeably, what it costs."""

import asyncio
from collections.abc import Callable

from builders import Walk, done, expire, later, registered
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from conformance.landing import land_all
from scenario.pool import Pool
from scenario.test_everyday import ids

ENDED = 8000
ROUNDS = 9


def ended(number: int) -> Walk:
    """An instance of the very run that is released, created and ended long ago, not yet purged."""
    walk = registered(f"i-{number:016x}", run_id="nightly", trust_domain="default")
    walk.append(expire(walk[-1].after))
    return [*walk, done(walk[-1].after, purge_at=later(9000))]


async def give_a_past(pool: Pool) -> None:
    async with Database.open(pool.home) as database:
        await land_all(SqliteRecords(database), [ended(number) for number in range(ENDED)])


def test_eight_thousand_ended_records_change_neither_what_release_finds_nor_its_cost(
    pools: Callable[[], Pool],
) -> None:
    young, old = pools(), pools()
    asyncio.run(give_a_past(old))
    seconds: dict[str, list[float]] = {"young": [], "old": []}
    for _ in range(ROUNDS):
        for name, pool in (("young", young), ("old", old)):  # side by side: the machine's mood meets both
            members = ids(pool.provision("nightly", 5))
            released = pool.release("nightly")
            assert sorted(released["offered"]) == members
            seconds[name].append(released["durationSeconds"])
    assert len(old.ids("terminated")) == ENDED
    assert old.audit() == []
    # The fastest of each: what else the machine does only ever adds.
    assert min(seconds["old"]) <= 2 * min(seconds["young"]), seconds
