"""An item that cannot be read or written concerns its own change: the changes beside it land."""

import logging
from collections.abc import Awaitable, Callable

import pytest

from builders import claim, expire, keep, later, on_offer, register
from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import Value, key_of, text
from bullpen.errors import Conflict
from bullpen.model.instance import CLAIMED, TERMINATED, Instance
from bullpen.model.transition import Check, Guard
from conformance.landing import land
from engines.aws.tables import CountedRecords, watched
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines

pytestmark = pytest.mark.real_loop


async def edit(pool: CountedRecords, id: str, **changed: Value | None) -> None:
    """Write as another program does."""
    expression = Expression()
    await pool.table.update(expression.request(key_of(Instance, id), UpdateExpression=expression.update(changed)))


async def test_a_claim_on_an_unreadable_item_is_a_conflict_without_a_record(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer())
        await edit(pool, "i-1", state=text("quarantined"))
        with pytest.raises(Conflict, match=r"TYPE#Instance / ID#i-1: `state` is .*quarantined") as refused:
            await pool.records.apply(claim(seen))
        assert refused.value.found is None


async def test_a_claim_that_landed_on_an_unreadable_item_is_a_conflict_with_a_warning(
    engines: Engines, aws_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer())
        await edit(pool, "i-1", cpu=text("four"))
        with caplog.at_level(logging.WARNING), pytest.raises(Conflict, match="`cpu` is") as refused:
            await pool.records.apply(claim(Instance.from_ticket(seen.ticket())))
        assert refused.value.found is None
        assert "item cannot be used record=i-1 step=claim" in caplog.text
        item = await pool.table.get(key_of(Instance, "i-1"))
        assert item is not None
        assert item["state"] == text(CLAIMED.value)


async def test_a_check_of_an_unreadable_item_is_a_conflict(engines: Engines, aws_settings: MakeSettings) -> None:
    async with watched(engines, aws_settings) as pool:
        await land(pool.records, on_offer())
        await edit(pool, "i-1", state=text("quarantined"))
        check = Check(Instance, "i-1", (Guard("state", "is", CLAIMED),))
        with pytest.raises(Conflict, match=r"i-1 cannot be read: .*`state` is") as refused:
            await pool.records.apply(register("i-2"), checks=[check])
        assert refused.value.found is None
        assert await pool.records.known(["i-2"]) == set()


async def unreadable(pool: CountedRecords) -> str:
    await edit(pool, "i-1", state=text("draining"))
    return ""


async def without_a_story(pool: CountedRecords) -> str:
    await edit(pool, "i-1", story=None)
    return ""


async def over_its_size(pool: CountedRecords) -> str:
    return "x" * 410_000


async def nearly_over_its_size(pool: CountedRecords) -> str:
    """The change itself is small: only the table knows that the item would be too large."""
    await edit(pool, "i-1", theirs=text("x" * 399_000))
    return "x" * 12_000


@pytest.mark.parametrize("spoil", [unreadable, without_a_story, over_its_size, nearly_over_its_size])
async def test_the_changes_beside_one_that_cannot_land_do(
    engines: Engines, aws_settings: MakeSettings, spoil: Callable[[CountedRecords], Awaitable[str]]
) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = [await land(pool.records, on_offer(f"i-{n}")) for n in range(4)]
        why = await spoil(pool)
        at = later(10**6)
        changes = [expire(one, at=at, why=why if one.id == "i-1" else "old") for one in seen]
        landed = await pool.records.apply_each(changes)
        assert [one.state for one in landed if isinstance(one, Instance)] == [TERMINATED] * 3
        assert isinstance(landed[1], Conflict)
        assert landed[1].found is None


async def test_together_with_one_that_cannot_be_written_nothing_lands(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer("i-1"))
        await edit(pool, "i-1", story=None)
        with pytest.raises(Conflict):
            await pool.records.apply(keep(seen), register("i-2"))
        assert await pool.records.known(["i-2"]) == set()
