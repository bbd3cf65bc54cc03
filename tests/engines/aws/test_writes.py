"""How changes land on DynamoDB when answers are lost, rivals are met and requests are throttled."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from builders import (
    NOW,
    Walk,
    abort,
    adopt,
    claim,
    claimed,
    commit,
    keep,
    on_offer,
    open_provision,
    register,
    registered,
    release,
    roll_back,
    running,
)
from bullpen.engines.aws.dynamodb import table
from bullpen.engines.aws.dynamodb.items import key_of, text
from bullpen.engines.system import SystemChance
from bullpen.errors import Conflict, Throttled, Unavailable
from bullpen.model import job
from bullpen.model.instance import CLAIMED, CREATED, Instance
from bullpen.model.job import Job
from bullpen.model.transition import Change, Check, Guard
from conformance.landing import land, stored
from engines.aws.tables import cancelled, watched
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Drop, Failure, Fault, Forward, ProxiedAnswer, ProxiedCall, Refuse

pytestmark = pytest.mark.real_loop

STEPS: dict[str, tuple[Walk, Callable[[Any], Change[Any]]]] = {
    "register": ([], lambda _: register()),
    "claim": (on_offer(), claim),
    "release": (running(), release),
    "roll back": (claimed(), roll_back),
    # Those that draw no round know themselves by their stamp.
    "adopt": (registered(), adopt),
    "keep": (on_offer(), keep),
    "commit": (claimed(), commit),
}


@pytest.mark.parametrize(("walk", "step"), STEPS.values(), ids=STEPS.keys())
async def test_a_write_whose_answer_was_lost_has_landed_once(
    engines: Engines, aws_settings: MakeSettings, walk: Walk, step: Callable[[Any], Change[Instance]]
) -> None:
    async with watched(engines, aws_settings) as pool:
        change = step(await land(pool.records, walk) if walk else None)
        pool.spent()
        pool.proxy.fail("UpdateItem", Drop())
        assert await pool.records.apply(change) == [change.after]
        assert pool.spent() == {"UpdateItem": 2}
        assert await stored(pool.records, "i-1") == change.after


async def test_a_lost_answer_is_no_success_once_another_process_has_moved_the_record(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer())
        first = keep(seen)

        async def lost_and_moved(call: Any, forward: Any) -> None:
            await forward(call.body)
            await pool.records.apply(keep(first.after))

        pool.proxy.fail("UpdateItem", lost_and_moved)
        with pytest.raises(Conflict) as refused:
            await pool.records.apply(first)
        assert refused.value.found.version == first.after.version + 1


async def test_a_transaction_whose_answer_was_lost_has_landed_once(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        (opened,) = await pool.records.apply(open_provision())
        changes: list[Change[Any]] = [abort(opened), register("i-1"), register("i-2")]
        pool.proxy.fail("TransactWriteItems", Drop())
        assert await pool.records.apply(*changes) == [change.after for change in changes]
        assert pool.spent()["TransactWriteItems"] == 2
        assert len(await pool.records.instances(["i-1", "i-2"])) == 2


async def test_two_changes_of_one_record_in_one_call_do_not_take_each_other_for_themselves(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer())
        first, second = keep(seen), keep(seen)
        landed, lost = await pool.records.apply_each([first, second])
        assert landed == first.after
        assert isinstance(lost, Conflict)


async def test_changes_of_one_record_in_one_call_land_one_after_the_other(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer())
        first = keep(seen)
        second = keep(first.after)
        assert await pool.records.apply_each([first, second, register("i-2")]) == [
            first.after,
            second.after,
            (await stored(pool.records, "i-2")),
        ]


# ---- rivals


BUSY: dict[str, tuple[str, Fault]] = {
    "a transaction meets another": ("TransactWriteItems", cancelled("TransactionConflict", "None")),
    "a transaction is throttled inside": ("TransactWriteItems", cancelled("None", "ThrottlingError")),
    "a partition of a transaction is": (
        "TransactWriteItems",
        cancelled("ProvisionedThroughputExceeded", "ProvisionedThroughputExceeded"),
    ),
    "a transaction goes on": ("TransactWriteItems", Failure("TransactionInProgressException")),
}


@pytest.mark.parametrize(("call", "fault"), BUSY.values(), ids=BUSY.keys())
async def test_meeting_others_in_a_transaction_is_a_retry_and_no_conflict(
    engines: Engines, aws_settings: MakeSettings, call: str, fault: Fault
) -> None:
    async with watched(engines, aws_settings) as pool:
        pool.proxy.fail(call, fault, times=2)
        changes = [register("i-1"), register("i-2")]
        assert await pool.records.apply(*changes) == [change.after for change in changes]
        assert pool.spent() == {"TransactWriteItems": 3}


async def test_an_update_that_meets_a_transaction_is_a_retry_and_no_conflict(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        pool.proxy.fail("UpdateItem", Failure("TransactionConflictException"), times=2)
        await land(pool.records, registered())
        assert pool.spent() == {"UpdateItem": 3}


async def test_racing_transactions_all_end_in_success_or_conflict(engines: Engines, aws_settings: MakeSettings) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = [await land(pool.records, on_offer(f"i-{n}")) for n in range(4)]
        rivals = [pool.records.apply(*(claim(one, f"run-{n}") for one in seen)) for n in range(8)]
        outcomes = await asyncio.gather(*rivals, return_exceptions=True)
        assert sum(isinstance(outcome, list) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7
        owners = {found.run_id for found in (await pool.records.instances([one.id for one in seen])).values()}
        assert len(owners) == 1


async def test_one_of_several_changes_of_the_same_version_lands(engines: Engines, aws_settings: MakeSettings) -> None:
    async with watched(engines, aws_settings) as pool:
        seen = await land(pool.records, on_offer())
        outcomes = await pool.records.apply_each([keep(seen)])
        outcomes += await asyncio.gather(*(pool.records.apply(keep(seen)) for _ in range(7)), return_exceptions=True)
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7


class Unlucky(SystemChance):
    """Draws the longest wait each time."""

    def uniform(self, low: float, high: float) -> float:
        return high


@pytest.mark.parametrize(
    "fault", [cancelled("TransactionConflict", "None"), Failure("TransactionInProgressException")], ids=["met", "busy"]
)
async def test_a_write_that_meets_rivals_for_too_long_is_throttled_and_attempts_do_not_multiply(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(table, "PATIENCE", 0.6)
    monkeypatch.setattr(table, "FIRST_WAIT", 0.2)
    async with watched(engines, aws_settings) as pool:
        pool.table.chance = Unlucky()
        pool.proxy.fail("TransactWriteItems", fault, times=None)
        with pytest.raises(Throttled, match=r"DynamoDB TransactWriteItems: for 0\.6 s, every attempt"):
            await pool.records.apply(register("i-1"), register("i-2"))
        assert pool.spent()["TransactWriteItems"] == 3  # after 0.2 s, after another 0.4 s, and then the time is up


async def test_what_was_given_up_is_throttled_or_unavailable(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "PATIENCE", 0)
    monkeypatch.setattr(table, "LEAST_ATTEMPTS", 1)
    async with watched(engines, aws_settings) as pool:
        pool.proxy.fail("UpdateItem", Failure("ProvisionedThroughputExceededException"))
        with pytest.raises(Throttled, match="DynamoDB UpdateItem: injected"):
            await pool.records.apply(register())
        pool.proxy.fail("UpdateItem", Failure("InternalServerError", status=500))
        with pytest.raises(Unavailable, match="DynamoDB UpdateItem: injected"):
            await pool.records.apply(register())


class OncePerItem:
    """Lets the first request for each item fail, in whatever order the requests arrive."""

    def __init__(self, fault: Fault) -> None:
        self.requests: Counter[str] = Counter()
        self._fault = fault

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        item = json.loads(call.body)["Key"]["SK"]["S"]
        self.requests[item] += 1
        return await (self._fault(call, forward) if self.requests[item] == 1 else forward(call.body))


@pytest.mark.parametrize(
    "fault", [Failure("ThrottlingException"), Failure("InternalServerError", 500), Refuse()], ids=repr
)
async def test_a_crowd_of_writes_that_each_fail_once_lands(
    engines: Engines, aws_settings: MakeSettings, fault: Fault
) -> None:
    async with watched(engines, aws_settings) as pool:
        once = OncePerItem(fault)
        pool.proxy.fail("UpdateItem", once, times=None)
        ids = [f"i-{n}" for n in range(140)]
        await asyncio.gather(*(pool.records.apply(register(id_)) for id_ in ids))
        assert (len(once.requests), set(once.requests.values())) == (140, {2})
        assert set(await pool.records.instances(ids)) == set(ids)


# ---- each on its own


async def test_each_lands_in_one_transaction_where_there_is_no_rival(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        await pool.records.apply_each([register(f"i-{n}") for n in range(100)])
        assert pool.spent() == {"TransactWriteItems": 1}


async def test_those_that_failed_are_left_out_and_the_others_sent_again(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        await pool.records.apply_each([register("i-1"), register("i-3")])
        pool.spent()
        landed = await pool.records.apply_each([register(f"i-{n}") for n in range(5)])
        assert [isinstance(each, Conflict) for each in landed] == [False, True, False, True, False]
        assert pool.spent() == {"TransactWriteItems": 2}


async def test_claims_go_alone_because_only_an_update_returns_what_a_ticket_does_not_know(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        offers = [await land(pool.records, on_offer(f"i-{n}", provision_id="p-9")) for n in range(2)]
        pool.spent()
        claims = [claim(Instance.from_ticket(offer.ticket())) for offer in offers]
        landed: list[Any] = await pool.records.apply_each(claims)
        assert [each.offered_at for each in landed] == [offer.offered_at for offer in offers]
        assert pool.spent() == {"UpdateItem": 2}


async def test_claims_together_return_the_records_as_they_are_stored(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        offers = [await land(pool.records, on_offer(f"i-{n}")) for n in range(2)]
        landed = await pool.records.apply(*(claim(Instance.from_ticket(offer.ticket())) for offer in offers))
        assert [each.offered_at for each in landed] == [offer.offered_at for offer in offers]
        assert {each.state for each in landed} == {CLAIMED}


# ---- what is written beside a change


def a_job(**changed: Any) -> Change[Job]:
    return job.submit(job.absent("j-1", "run-1", ("true",)), job.Submitted(at=NOW, by="test"))


async def test_a_job_is_assigned_with_its_marker_in_one_request_and_only_while_the_checks_hold(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with watched(engines, aws_settings) as pool:
        (queued,) = await pool.records.apply(a_job())
        await land(pool.records, registered("i-1"))
        pool.spent()
        assign = job.assign(
            queued, job.Assigned(at=NOW, by="test", worker="i-1/a", epoch=1, instance_id="i-1", verify_by=NOW)
        )
        lives = Check(Instance, "i-1", (Guard("state", "is", CREATED), Guard("run_id", "is", "")))
        owned = Check(Instance, "i-1", (Guard("run_id", "is", "run-1"),))
        gone = Check(Instance, "i-2", ())
        with pytest.raises(Conflict, match="i-1 must have run_id is 'run-1'"):
            await pool.records.apply(assign, checks=[lives, owned])
        with pytest.raises(Conflict, match="i-2 is absent"):
            await pool.records.apply(assign, checks=[gone])
        assert await held(pool.table) == []
        never_used = Check(Instance, "i-1", (Guard("trust_domain", "is", ""),))
        (running_,) = await pool.records.apply(assign, checks=[lives, never_used])
        assert await held(pool.table) == ["ID#000000000001#j-1"]
        ran = job.Ran(
            at=NOW, by="t", worker="i-1/a", epoch=1, fence=1, exit_code=0, result=job.Result.SUCCEEDED, purge_at=NOW
        )
        await pool.records.apply(job.finish(running_, ran))
        assert await held(pool.table) == []
        assert set(pool.spent()) == {"TransactWriteItems", "Query"}


async def held(client: table.TableClient) -> list[str]:
    return [item["SK"]["S"] for item in await client.walk(("PK", "TYPE#Held#i-1/a")).all()]


async def test_a_write_leaves_the_words_of_dynamodb_alone(engines: Engines, aws_settings: MakeSettings) -> None:
    """`state`, `round`, `index`, `name`, `timeout`, `value` and `ttl` are reserved: none may stand in an expression."""
    async with watched(engines, aws_settings) as pool:
        (queued,) = await pool.records.apply(a_job())
        assert queued == a_job().after
        await land(pool.records, running())
        item = await pool.table.get(key_of(Instance, "i-1"))
        assert item is not None
        assert (item["state"], item["runId"], item["instanceId"]) == (text("running"), text("run-1"), text("i-1"))
