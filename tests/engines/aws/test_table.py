"""The table as it answers in bad moments: batches half done, pages empty, items of others, and tables of others."""

import asyncio
import logging
from datetime import datetime
from typing import Any

import pytest

from builders import (
    NOW,
    abort,
    buried,
    expire,
    later,
    needs,
    on_offer,
    open_provision,
    register,
    registered,
)
from bullpen.engines.aws.dynamodb import table
from bullpen.engines.aws.dynamodb.items import Item, Value, key_of, moment, number, raw_key, text
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.engines.aws.dynamodb.schema import SCHEMA_KEY, table_definition
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.aws.errors import call
from bullpen.engines.aws.session import opened
from bullpen.engines.system import SystemChance
from bullpen.errors import ConfigError, Conflict, Outdated, Throttled
from bullpen.model.instance import UNBOOKED_STAYS, Instance
from bullpen.model.provision import Provision
from conformance.landing import land
from engines.aws.tables import Says, watched
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import LeaveOut

pytestmark = pytest.mark.real_loop

# ---- batches and pages


async def test_what_a_batch_left_out_is_asked_for_again(engines: Engines, aws_settings: MakeSettings) -> None:
    async with watched(engines, aws_settings) as pool:
        await pool.records.apply_each([register(f"i-{n}") for n in range(20)])
        pool.spent()
        pool.proxy.fail("BatchGetItem", LeaveOut(15))
        pool.proxy.fail("BatchGetItem", LeaveOut(7), after=1)
        assert len(await pool.records.instances([f"i-{n}" for n in range(20)])) == 20
        assert pool.spent() == {"BatchGetItem": 3}


async def test_a_batch_that_is_never_done_is_given_up(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "PATIENCE", 0.1)
    async with watched(engines, aws_settings) as pool:
        pool.proxy.fail("BatchGetItem", LeaveOut(1), times=None)
        with pytest.raises(Throttled, match=r"DynamoDB BatchGetItem: for 0\.1 s"):
            await pool.records.instances(["i-1"])


async def test_ids_named_twice_are_read_once(engines: Engines, aws_settings: MakeSettings) -> None:
    async with watched(engines, aws_settings) as pool:
        await land(pool.records, registered())
        assert (await pool.records.instances(["i-1", "i-1"])).keys() == {"i-1"}


async def test_a_hundred_are_read_with_one_request(engines: Engines, aws_settings: MakeSettings) -> None:
    async with watched(engines, aws_settings) as pool:
        await pool.records.instances([f"i-{n}" for n in range(200)])
        assert pool.spent() == {"BatchGetItem": 2}
        await pool.records.instances([])
        assert pool.spent() == {}


async def test_an_empty_page_is_not_the_end(engines: Engines, aws_settings: MakeSettings) -> None:
    """DynamoDB may answer with nothing but where to go on, as after a page of items that have just left the index."""

    def empty(**key: str) -> Says:
        start = {"PK": text("TYPE#Instance"), "SK": text("ID#0"), **{name: text(value) for name, value in key.items()}}
        return Says({"Items": [], "Count": 0, "LastEvaluatedKey": start})

    async with watched(engines, aws_settings) as pool:
        await land(pool.records, on_offer())
        await pool.records.apply(open_provision(deadline=later(5)))
        for fault, ask in (
            (empty(liveKey="LIVE#Instance"), pool.records.live(10)),
            (empty(poolKey="CLAIMABLE#small"), pool.records.claimable(needs(), NOW, 10)),
        ):
            pool.proxy.fail("Query", fault)
            assert [found.id for found in await ask] == ["i-1"]
        pool.proxy.fail("Query", empty(dueKey="DUE#Provision", dueSort="0"))
        assert [found.id for found in await pool.records.due_provisions(later(5), 10)] == ["p-1"]
        pool.proxy.fail("Query", empty(liveKey="LIVE#Instance"))
        assert sum((await pool.records.count()).values()) == 1


async def test_what_an_index_still_shows_and_is_no_longer_so_is_left_out(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    def entry(provision_id: str, due: datetime) -> Item:
        return {**key_of(Provision, provision_id), "dueKey": text("DUE#Provision"), "dueSort": text(moment(due))}

    async with watched(engines, aws_settings) as pool:
        opened = [open_provision(f"p-{n}", deadline=later(5 + n)) for n in range(3)]
        seen, _, other = await pool.records.apply(*opened)
        await pool.records.apply(abort(seen, due=later(600)))
        await pool.table.delete(key_of(Provision, "p-1"))
        stale = [entry("p-0", later(5)), entry("p-1", later(6))]
        pool.proxy.fail("Query", Says({"Items": stale, "Count": 2, "LastEvaluatedKey": stale[1]}))
        assert await pool.records.due_provisions(later(7), 1) == [other]


# ---- items of other programs


FOREIGN: dict[str, tuple[dict[str, Value | None], str]] = {
    "a field is missing": ({"threshold": None}, "`threshold` is missing"),
    "the version is missing": ({"version": None}, "`version` is missing"),
    "a field has another type": ({"version": text("two")}, "`version` is"),
    "a number is none of ours": ({"cpu": {"N": "1.5"}}, "`cpu` is"),
    "a state is unknown": ({"state": text("resting")}, "`state` is"),
    "a time is none": ({"threshold": text("tomorrow")}, "`threshold` is"),
    "a time is in no zone": ({"threshold": text("2030-01-01T00:00:00")}, "`threshold` is"),
    "a debt is none": ({"owes": {"M": {"kind": text("money"), "dueAt": text("2030-01-01T00:00:00Z")}}}, "`owes` is"),
}


@pytest.mark.parametrize(("changed", "said"), FOREIGN.values(), ids=FOREIGN.keys())
async def test_an_item_of_another_program_is_left_out_by_name_and_stops_no_query(
    engines: Engines,
    aws_settings: MakeSettings,
    caplog: pytest.LogCaptureFixture,
    changed: dict[str, Value | None],
    said: str,
) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer("i-1"))
        await land(pool.records, on_offer("i-2"))
        item = await pool.table.get(key_of(Instance, "i-1"))
        assert item is not None
        written: Item = {name: value for name, value in {**item, **changed}.items() if value is not None}
        await pool.table.put(written)
        with caplog.at_level(logging.WARNING):
            assert (await pool.records.instances(["i-1", "i-2", "i-3"])).keys() == {"i-2"}
        assert f"DynamoDB item TYPE#Instance / ID#i-1: {said}" in caplog.text
        assert "Another program wrote it" in caplog.text
        assert await pool.records.known(["i-1", "i-2", "i-3"]) == {"i-1", "i-2"}
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert [found.id for found in await pool.records.live(10)] == ["i-2"]
            assert [found.id for found in await pool.records.claimable(needs(), NOW, 10)] == ["i-2"]
        assert "TYPE#Instance / ID#i-1" in caplog.text
        if "version" in changed:
            with pytest.raises(Conflict, match="ID#i-1") as refused:
                await pool.records.apply(expire(seen, at=later(10**6)))
            assert refused.value.found is None


async def test_a_record_without_a_story_is_refused_a_further_step(engines: Engines, aws_settings: MakeSettings) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer())
        item = await pool.table.get(key_of(Instance, "i-1"))
        assert item is not None
        await pool.table.put({name: value for name, value in item.items() if name != "story"})
        with pytest.raises(Conflict, match=r"an item of table .* cannot be written"):
            await pool.records.apply(expire(seen, at=later(10**6)))


async def test_a_first_write_overwrites_no_item_of_another_program(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        theirs = {**raw_key("Instance", "i-1"), "note": text("mine")}
        await pool.table.put(theirs)
        with pytest.raises(Conflict, match="`state` is missing"):
            await pool.records.apply(register())
        assert await pool.table.get(raw_key("Instance", "i-1")) == theirs


# ---- what leaves by itself


async def test_a_record_that_may_go_carries_its_time_to_live_and_purge_removes_nothing(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        await land(pool.records, buried("i-1", purge_at=later(0.5)))
        await land(pool.records, on_offer("i-2"))
        gone, stays = [await pool.table.get(key_of(Instance, id)) for id in ("i-1", "i-2")]
        assert gone is not None
        assert stays is not None
        assert gone["ttl"] == number(int((later(1) + UNBOOKED_STAYS).timestamp()))
        assert "ttl" not in stays
        pool.spent()
        assert await pool.records.purge(later(3600), 10) == 0
        assert pool.spent() == {}


# ---- tables of others


async def test_a_table_that_does_not_exist_is_named_with_its_region(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with opened(aws_settings().aws) as cloud:
        records = DynamoRecords(TableClient(cloud, SystemChance()))
        for ask in (records.instances(["i-1"]), records.live(1), records.apply(register()), records.count()):
            with pytest.raises(
                ConfigError, match=r"DynamoDB \w+: table test-\w+ in region eu-central-1 does not exist"
            ) as missing:
                await ask
            assert "bullpen refresh" in missing.value.remedy


def _other_keys(definition: dict[str, Any]) -> dict[str, Any]:
    keys = [{"AttributeName": "id", "KeyType": "HASH"}]
    names = [{"AttributeName": "id", "AttributeType": "S"}]
    given = {"KeySchema": keys, "AttributeDefinitions": names}
    return {name: value for name, value in {**definition, **given}.items() if name != "GlobalSecondaryIndexes"}


def _no_indexes(definition: dict[str, Any]) -> dict[str, Any]:
    names = [{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK")]
    given = {**definition, "AttributeDefinitions": names}
    return {name: value for name, value in given.items() if name != "GlobalSecondaryIndexes"}


@pytest.mark.parametrize(("spoil", "reads_too"), [(_other_keys, True), (_no_indexes, False)])
async def test_a_table_of_another_schema_is_reported_as_not_a_table_of_bullpen(
    engines: Engines, aws_settings: MakeSettings, spoil: Any, reads_too: bool
) -> None:
    async with opened(aws_settings().aws) as cloud:
        await call(await cloud.client("dynamodb"), "create_table", **spoil(table_definition(cloud.settings.pool)))
        records = DynamoRecords(TableClient(cloud, SystemChance()))
        asked = [records.live(1), records.claimable(needs(), NOW, 1), records.due_provisions(NOW, 1)]
        if reads_too:
            asked += [records.instances(["i-1"]), records.apply(open_provision())]
        for ask in asked:
            with pytest.raises(ConfigError, match="is not a table of Bullpen") as refused:
                await ask
            assert "aws.pool" in refused.value.remedy


async def test_a_provision_is_read_with_one_request(engines: Engines, aws_settings: MakeSettings) -> None:
    async with watched(engines, aws_settings) as pool:
        await pool.records.apply(open_provision())
        pool.spent()
        assert isinstance(await pool.records.provision("p-1"), Provision)
        assert pool.spent() == {"BatchGetItem": 1}


async def test_the_mark_is_read_once_before_the_first_write_and_a_newer_one_lets_nothing_be_written(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        fresh = TableClient(pool.table._cloud, SystemChance())
        await asyncio.gather(*(fresh.put({**raw_key("Note", str(n)), "text": text("x")}) for n in range(3)))
        assert pool.spent() == {"BatchGetItem": 1, "PutItem": 3}  # a table without a mark is as good as ours
        await pool.table.put({**SCHEMA_KEY, "schema": {"N": "7"}})
        late, pool_key = TableClient(pool.table._cloud, SystemChance()), raw_key("Note", "late")
        for write in (late.put(pool_key), late.delete(pool_key), late.transact([{"Put": {"Item": pool_key}}], "t")):
            with pytest.raises(Outdated, match=f"table {pool.table.name} was created by a newer Bullpen"):
                await write
        assert await pool.table.get(pool_key) is None
