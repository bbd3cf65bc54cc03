"""An instance that executes a job of another CI is spared, and its debt is put off, on every engine."""

from collections.abc import Callable

import pytest

from builders import (
    NOW,
    Walk,
    abort,
    buried,
    claimed,
    cleaning,
    conclude,
    decide,
    expire,
    later,
    open_provision,
    postpone,
    registered,
    settle,
    spare,
)
from bullpen.errors import Conflict
from bullpen.model.instance import TERMINATED, UNBOOKED_STAYS
from bullpen.model.signal import Heartbeat, direct_key
from bullpen.ports import Records, Signals, Workers
from conformance.landing import land, stored
from conformance.leases import lose


@pytest.mark.parametrize("walk", [cleaning, claimed, registered], ids=lambda walk: walk.__name__)
async def test_one_that_is_spared_has_a_later_threshold_and_nothing_else(
    records: Records, walk: Callable[[], Walk]
) -> None:
    one = await land(records, walk())
    (spared,) = await records.apply(spare(one, until=later(5000)))
    assert await stored(records, one.id) == spared
    assert (spared.threshold, spared.owes) == (later(5000), one.owes)
    assert (spared.state, spared.round) == (one.state, one.round)
    with pytest.raises(Conflict):
        await records.apply(spare(one, until=later(6000)))
    due = [found.id for found in await records.owing_instances(later(4000), 10)]
    assert due == ([one.id] if one.owes else [])
    (ended,) = await records.apply(expire(spared))
    assert ended.state is TERMINATED


async def test_a_release_that_is_put_off_is_due_later_and_still_owed(records: Records) -> None:
    (known,) = await records.apply(open_provision())
    for step in (lambda one: decide(one, "i-1"), settle, lambda one: conclude(one, due=later(5))):
        (known,) = await records.apply(step(known))
    assert [one.id for one in await records.due_provisions(later(6), 10)] == ["p-1"]
    (put_off,) = await records.apply(postpone(known, due=later(20)))
    assert await records.provision("p-1") == put_off
    assert put_off.is_over
    assert await records.due_provisions(later(6), 10) == []
    assert [one.id for one in await records.due_provisions(later(21), 10)] == ["p-1"]
    assert [one.id for one in await records.run_provisions("run-1")] == ["p-1"]
    with pytest.raises(Conflict):
        await records.apply(postpone(known, due=later(30)))
    (over,) = await records.apply(settle(put_off))
    assert over.owes is None
    assert await records.due_provisions(later(100), 10) == []


async def test_so_is_what_an_aborted_one_owes(records: Records) -> None:
    (known,) = await records.apply(open_provision())
    (known,) = await records.apply(abort(known, "no"))
    (put_off,) = await records.apply(postpone(known, due=later(20)))
    assert await records.provision("p-1") == put_off
    assert await records.due_provisions(later(6), 10) == []
    assert [one.id for one in await records.due_provisions(later(21), 10)] == ["p-1"]


@pytest.mark.purging
async def test_a_worker_that_owes_outlives_the_record_of_its_instance(
    records: Records, signals: Signals, workers: Workers
) -> None:
    key = direct_key("i-1")
    await land(records, buried("i-1", purge_at=later(60)))
    await signals.beat(Heartbeat("i-1", NOW, 1))
    (worker,) = (await workers.workers([key])).values()
    assert worker.deadline is not None
    await records.apply(lose(worker, worker.deadline))
    assert await records.purge(later(60) + UNBOOKED_STAYS, 10) == 1, "its time has not been booked"
    assert [one.id for one in await workers.owing(10)] == [key]
    assert (await records.stories([key]))[key]
