"""Sweepers on DynamoDB: any number at once, one transition each; and what a sweep costs."""

import asyncio

import pytest

from builders import later, on_offer
from bullpen.engines.aws.dynamodb.entries import LEASE_SHARDS
from bullpen.engines.aws.dynamodb.items import Item
from bullpen.engines.aws.dynamodb.records import CENSUS_OF, DynamoRecords
from bullpen.engines.aws.dynamodb.table import TableClient, Walk
from bullpen.engines.aws.dynamodb.workers import DynamoWorkers
from bullpen.engines.aws.session import opened
from bullpen.engines.system import SystemChance
from bullpen.errors import Conflict
from bullpen.model.worker import INACTIVE
from conformance.landing import land
from conformance.leases import a_beat, lose
from engines.aws.counted import a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines

pytestmark = pytest.mark.real_loop


async def a_crowd(workers: DynamoWorkers, size: int, *, renewed: bool = False) -> list[str]:
    """Workers whose leases end one second after the other."""
    keys = [f"i-{number:03}/x" for number in range(size)]
    beats = [(key, a_beat(lease=10.0 + place, instance_id=key[:5])) for place, key in enumerate(keys)]
    await workers.beat(beats)
    if renewed:
        await workers.beat([(key, a_beat(1, lease=600.0, instance_id=key[:5])) for key in keys])
    return keys


async def test_each_timer_is_moved_by_one_of_two_sweepers(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench, opened(aws_settings().aws) as elsewhere:
        first = DynamoWorkers(bench.table)
        second = DynamoWorkers(TableClient(elsewhere, SystemChance()))
        agents = [bench.agent(f"i-{number}") for number in range(5)]
        for agent in agents:
            agent.beat(None)
        keys = await a_crowd(first, 25, renewed=True)
        moved = await asyncio.gather(first.rearm(later(100), 100), second.rearm(later(100), 100))
        assert sum(moved) == 30
        assert {one.version for one in (await first.workers(keys)).values()} == {3}
        assert {one.version for one in await first.listed(100) if one.id not in keys} == {1}
        assert await second.rearm(later(100), 100) == 0


async def test_each_worker_is_given_up_by_one_of_two_sweepers(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench, opened(aws_settings().aws) as elsewhere:
        workers = DynamoWorkers(bench.table)
        keys = await a_crowd(workers, 20)
        changes = [lose(one, later(100)) for one in await workers.suspects(later(100), 100)]
        sweepers = (DynamoRecords(bench.table), DynamoRecords(TableClient(elsewhere, SystemChance())))
        both = await asyncio.gather(*(records.apply_each(changes) for records in sweepers))
        assert sum(not isinstance(outcome, Conflict) for outcomes in both for outcome in outcomes) == 20
        found = (await workers.workers(keys)).values()
        assert {(one.state, one.version, one.lost_epoch) for one in found} == {(INACTIVE, 2, 1)}


async def test_one_agent_brought_back_by_two_sweepers_begins_one_epoch(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench, opened(aws_settings().aws) as elsewhere:
        first, agent = DynamoWorkers(bench.table), bench.agent()
        second = DynamoWorkers(TableClient(elsewhere, SystemChance()))
        agent.beat(None)
        await first.rearm(later(0), 10)
        (suspect,) = await first.suspects(later(15), 10)
        await DynamoRecords(bench.table).apply(lose(suspect, later(15)))
        agent.beat(None)
        assert sum(await asyncio.gather(first.rearm(later(16), 10), second.rearm(later(16), 10))) == 1
        ((_, back),) = (await first.workers([suspect.id])).items()
        assert back.epoch == 2


async def test_a_sweep_that_finds_nothing_asks_each_part_of_the_index_once(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        await a_crowd(workers, 5)
        bench.requests()
        assert await workers.rearm(later(1), 1000) == 0
        assert bench.requests() == {"Query": LEASE_SHARDS + 1}  # and once for lost agents that may beat again
        assert await workers.suspects(later(1), 1000) == []
        assert await workers.to_clean(later(1), 1000) == []
        assert bench.requests() == {}  # all of it was seen before
        assert await workers.suspects(later(2), 1000) == []
        assert await workers.to_clean(later(2), 1000) == []
        assert bench.requests() == {"Query": LEASE_SHARDS + 1}


async def test_workers_seen_in_the_index_are_read_again_before_they_are_returned(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, records = DynamoWorkers(bench.table), DynamoRecords(bench.table)
        keys = await a_crowd(workers, 20)
        early = await workers.suspects(later(13), 10)
        await records.apply_each([lose(one, later(13), cleanup_at=later(20)) for one in early])
        bench.requests()
        assert await workers.rearm(later(100), 1000) == 0
        bench.requests()
        await workers.beat([(keys[10], a_beat(1, at=later(99), lease=600.0, instance_id="i-010"))])
        bench.requests()
        assert [one.id for one in await workers.suspects(later(100), 1000)] == [*keys[4:10], *keys[11:]]
        assert [one.id for one in await workers.to_clean(later(100), 1000)] == keys[:4]
        assert bench.requests() == {"BatchGetItem": 2}


async def test_the_longest_silent_come_first_from_all_parts_of_the_index(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        keys = await a_crowd(workers, 40)
        assert [one.id for one in await workers.suspects(later(100), 7)] == keys[:7]
        assert [one.id for one in await workers.suspects(later(100), 100)] == keys


async def test_renewed_leases_hide_no_suspect_behind_them(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        await a_crowd(workers, 30, renewed=True)
        await workers.beat([("i-999/x", a_beat(lease=99.0, instance_id="i-999"))])
        assert [one.id for one in await workers.suspects(later(100), 1)] == ["i-999/x"]


async def test_an_item_of_another_program_stops_no_sweep(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        await a_crowd(workers, 2)
        lease = {"dueKey": {"S": "LEASE#0"}, "dueSort": {"S": "0"}}
        foreign = {"PK": {"S": "TYPE#Heartbeat"}, "SK": {"S": "ID#i-x"}, "seq": {"S": "many"}, **lease}
        await bench.table.put(foreign)
        assert await workers.rearm(later(100), 10) == 0
        assert len(await workers.suspects(later(100), 10)) == 2


async def test_a_census_is_remembered_for_a_while(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table, census_lasts=3600)
        await a_crowd(workers, 2)
        assert await workers.census() == {("zone-a", "active"): 2}
        await workers.beat([("i-999/x", a_beat(instance_id="i-999"))])
        assert await workers.census() == {("zone-a", "active"): 2}
        assert await DynamoWorkers(bench.table).census() == {("zone-a", "active"): 3}


async def test_a_census_sends_no_more_of_each_entry_than_it_counts(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape asks it of a pool of any size."""
    sent: set[str] = set()
    page = Walk.page

    async def noted(walk: Walk) -> list[Item]:
        items = await page(walk)
        sent.update(name for item in items for name in item)
        return items

    async with a_bench(engines, aws_settings) as bench:
        workers, records = DynamoWorkers(bench.table), DynamoRecords(bench.table)
        await a_crowd(workers, 2)
        await land(records, on_offer("i-1"))
        monkeypatch.setattr(Walk, "page", noted)
        assert sum((await records.census()).values()) == 1
        assert sum((await records.count()).values()) == 1
        assert sum((await workers.census()).values()) == 2
    assert sent <= {*CENSUS_OF, "domain"}
    assert set(CENSUS_OF) <= sent
