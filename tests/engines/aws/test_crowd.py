"""Old records cost nothing: no question is answered with more requests because thousands have ended before."""

import asyncio
from datetime import timedelta

import pytest

from builders import NOW, cleaning, done, expire, needs, on_offer, open_provision, register, running
from bullpen.engines.aws.dynamodb.entries import derived
from bullpen.engines.aws.dynamodb.items import Item, encode, key_of
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.model.instance import IDLE, RUNNING, Instance
from conformance.landing import land
from engines.aws.tables import CountedRecords, watched
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]

CROWD = 8000
AT_ONCE = 25  # what one BatchWriteItem takes


async def test_eight_thousand_ended_records_change_neither_what_is_found_nor_what_it_costs(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        for walk in (running("i-a"), on_offer("i-b"), cleaning("i-c")):
            await land(pool.records, walk)
        await pool.records.apply(open_provision())
        alone = await ask_everything(pool)
        ended = done(expire(register(run_id="run-1").after).after).after
        await put_all(pool.table, [as_item(ended, f"i-{n:04}") for n in range(CROWD)])
        assert await ask_everything(pool) == alone


async def ask_everything(pool: CountedRecords) -> tuple[object, dict[str, int]]:
    pool.spent()
    long_after = NOW + timedelta(days=30)
    found = (
        [one.id for one in await pool.records.run_instances("run-1")],
        [one.id for one in await pool.records.claimable(needs(), NOW, 10, "i-5")],
        [one.id for one in await pool.records.pending("small", 10)],
        [one.id for one in await pool.records.owing_instances(long_after, 10)],
        [one.id for one in await pool.records.live(10)],
        [one.id for one in await pool.records.open_provisions("small")],
        await pool.records.count(),
    )
    assert found[-1] == {("small", RUNNING): 1, ("small", IDLE): 2}
    return found, pool.spent()


def as_item(record: Instance, instance_id: str) -> Item:
    follows = {name: value for name, value in derived(record).items() if value is not None}
    return {**encode(record), **follows, **key_of(Instance, instance_id)}


async def put_all(table: TableClient, items: list[Item]) -> None:
    """Faster than by their steps: what was said before they ended is of no interest here."""
    portions = [items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE)]
    for at in range(0, len(portions), 8):
        requests = [[{"PutRequest": {"Item": item}} for item in portion] for portion in portions[at : at + 8]]
        await asyncio.gather(*(table.call("batch_write_item", RequestItems={table.name: some}) for some in requests))
