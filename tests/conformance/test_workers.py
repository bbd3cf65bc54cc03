"""What every Workers promises."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from builders import NOW, buried, later, running
from bullpen.errors import Conflict
from bullpen.model import worker as steps
from bullpen.model.control import Control, Holding, Ingested, Spent, absent, hold, ingest, lift, spend
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.signal import Heartbeat, direct_key
from bullpen.model.transition import Change, Check, Guard
from bullpen.model.worker import ACTIVE, CLEANED_UP, INACTIVE, Accepted, Card, Code, Rejected, Worker, WorkerFate
from bullpen.ports import TOGETHER_LIMIT, HeldLease, History, Records, Signals, Workers
from conformance.landing import book_to_their_ends, land
from conformance.leases import KEY, a_beat, accepted, assign, clean_up, lose, lost, settle, stop, stored, submitted


def keys(workers: list[Worker]) -> list[str]:
    return [worker.id for worker in workers]


# ---- beats


async def test_the_first_beat_registers_the_worker(workers: Workers) -> None:
    beat = a_beat()
    (answer,) = await workers.beat([(KEY, beat)])
    registered = steps.register(steps.absent(KEY), beat).after
    assert answer == Accepted.of(registered)
    assert await stored(workers) == registered


async def test_every_beat_does_what_the_model_says(workers: Workers) -> None:
    worker: Worker | None = None
    for second, lease in enumerate((60.0, 60.0, 5.5, 3600.0, 0.123456, 30.0)):
        beat = a_beat(worker.token if worker else 0, at=later(second / 7), lease=lease)
        expected = steps.receive(worker, KEY, beat)
        assert isinstance(expected, Change)
        (answer,) = await workers.beat([(KEY, beat)])
        worker = expected.after
        assert answer == Accepted.of(worker)
        assert await stored(workers) == worker


@pytest.mark.parametrize("place", [{"instance_id": "i-2"}, {"domain": "zone-b"}, {"instance_id": "", "domain": ""}])
async def test_a_beat_from_another_place_moves_the_worker_and_one_that_names_none_leaves_it(
    workers: Workers, place: dict[str, str]
) -> None:
    first = await accepted(workers)
    moved = await accepted(workers, token=1, **place)
    assert moved.instance_id == (place.get("instance_id") or first.instance_id)
    assert moved.domain == (place.get("domain") or first.domain)
    assert await stored(workers) == moved


async def test_what_a_worker_runs_is_what_its_last_beat_names(signals: Signals, workers: Workers) -> None:
    """By every way that a beat may take: the first, a plain one, one that says nothing, moves or leaves."""
    said: list[dict[str, Any]] = [
        {"activity": "first"},
        {"activity": "second"},
        {},
        {"activity": "third", "request_id": ""},
        {"activity": "fourth", "domain": "zone-b"},
        {"activity": "fifth", "leaving": later(120)},
        {"activity": "sixth"},
        {},
    ]
    for token, beat in enumerate(said):
        worker = await accepted(workers, token=token, **beat)
        assert worker.activity == beat.get("activity", "")
        assert await stored(workers) == worker
        heartbeat = (await signals.read(["i-1"]))["i-1"].heartbeat
        assert heartbeat is not None
        assert heartbeat.activity == worker.activity


async def test_a_beat_that_does_not_count_binds_and_unbinds_nothing(workers: Workers) -> None:
    await accepted(workers, activity="build", request_id="same")
    for beat in (a_beat(7, activity="late"), a_beat(0, request_id="same")):
        await workers.beat([(KEY, beat)])
        assert (await stored(workers)).activity == "build"


async def test_a_lost_worker_takes_along_what_it_ran(records: Records, workers: Workers) -> None:
    worker = await accepted(workers, activity="build")
    await records.apply(lose(worker, later(60)))
    assert [one.activity for one in await workers.owing(10)] == ["build"]


async def test_the_same_request_again_is_answered_again_and_moves_nothing(workers: Workers) -> None:
    await accepted(workers)
    second = await accepted(workers, token=1, request_id="same")
    for token in (1, 2):
        (again,) = await workers.beat([(KEY, a_beat(token, at=later(30), request_id="same"))])
        assert again == Accepted.of(second, replayed=True)
    assert await stored(workers) == second


@pytest.mark.parametrize("token", [0, 1, 3, -1])
async def test_a_beat_with_another_token_is_rejected_with_the_current_one(workers: Workers, token: int) -> None:
    await accepted(workers)
    second = await accepted(workers, token=1)
    (answer,) = await workers.beat([(KEY, a_beat(token, at=later(30)))])
    assert answer == Rejected(Code.MISMATCH, ACTIVE, 2)
    assert await stored(workers) == second


async def test_a_token_for_an_unknown_key_is_rejected(workers: Workers) -> None:
    assert await workers.beat([(KEY, a_beat(7))]) == [Rejected(Code.UNKNOWN, steps.ABSENT, 0)]
    assert await workers.workers([KEY]) == {}


async def test_a_beat_brings_an_inactive_worker_back_in_a_new_epoch(records: Records, workers: Workers) -> None:
    await lost(records, workers)
    (answer,) = await workers.beat([(KEY, a_beat(1, at=later(90)))])
    assert isinstance(answer, Accepted)
    assert answer.resurrected
    back = await stored(workers)
    assert (answer.epoch, back.epoch, back.state, back.cleanup_at) == (2, 2, ACTIVE, None)
    assert back.owes_reschedule


async def test_a_worker_whose_instance_is_being_ended_does_not_come_back(records: Records, workers: Workers) -> None:
    retired = await lost(records, workers, fate=WorkerFate.RETIRE)
    assert await workers.beat([(KEY, a_beat(1, at=later(90)))]) == [Rejected(Code.RETIRED, INACTIVE, 1)]
    assert await stored(workers) == retired


async def test_a_tombstone_takes_no_beat(records: Records, workers: Workers) -> None:
    (tombstone,) = await records.apply(clean_up(await lost(records, workers), later(9000)))
    assert await workers.beat([(KEY, a_beat(1, at=later(4000)))]) == [Rejected(Code.CLEANED_UP, CLEANED_UP, 1)]
    assert await stored(workers) == tombstone


async def test_each_beat_of_a_batch_has_its_own_answer_in_order(records: Records, workers: Workers) -> None:
    await accepted(workers, "b")
    await lost(records, workers, "c")
    answers = await workers.beat(
        [("a", a_beat(5)), ("b", a_beat(1)), ("c", a_beat(1)), ("d", a_beat()), ("b", a_beat(1)), ("b", a_beat(2))]
    )
    said = [answer.code if isinstance(answer, Rejected) else answer.token for answer in answers]
    assert said == [Code.UNKNOWN, 2, 2, 1, Code.MISMATCH, 3]
    assert [isinstance(answer, Accepted) and answer.resurrected for answer in answers].index(True) == 2


@pytest.mark.parametrize("size", [0, 1, 2, 11, 250])
async def test_a_batch_of_any_size_is_taken(workers: Workers, size: int) -> None:
    names = [f"w-{number:03}" for number in range(size)]
    for token in (0, 1):
        answers = await workers.beat([(key, a_beat(token, lease=60.0 + n)) for n, key in enumerate(names)])
        assert answers == [Accepted(1, token + 1, 60.0 + n) for n in range(size)], "in order"
    assert {worker.token for worker in (await workers.workers(names)).values()} <= {2}


async def test_of_two_first_beats_at_once_one_registers_and_the_other_meets_it(workers: Workers) -> None:
    answers = await asyncio.gather(*(workers.beat([(KEY, a_beat())]) for _ in range(2)))
    codes = [answer.code if isinstance(answer, Rejected) else None for (answer,) in answers]
    assert sorted(codes, key=str) == [None, Code.MISMATCH]
    assert (await stored(workers)).epoch == 1
    assert await workers.census() == {("zone-a", "active"): 1}


async def test_of_many_beats_with_one_token_one_counts(workers: Workers) -> None:
    await accepted(workers)
    answers = await asyncio.gather(*(workers.beat([(KEY, a_beat(1))]) for _ in range(64)))
    assert sum(isinstance(answer, Accepted) for (answer,) in answers) == 1
    assert (await stored(workers)).token == 2


async def test_a_caller_that_is_cancelled_does_not_take_the_beats_of_others_with_it(workers: Workers) -> None:
    loop = asyncio.get_running_loop()
    calls = [loop.create_task(workers.beat([(f"w-{number}", a_beat())])) for number in range(8)]
    await asyncio.sleep(0)
    calls[0].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, list) for answer in answers) == 7


@pytest.mark.parametrize("first", ["beat", "expiry"])
async def test_of_a_beat_and_an_expiry_at_once_exactly_one_wins(records: Records, workers: Workers, first: str) -> None:
    for number in range(20):
        seen = await accepted(workers, key := f"w-{number}")
        beat = workers.beat([(key, a_beat(1, at=later(60)))])
        expiry = records.apply_each([lose(seen, later(60))])
        if first == "beat":
            (answer,), (outcome,) = await asyncio.gather(beat, expiry)
        else:
            (outcome,), (answer,) = await asyncio.gather(expiry, beat)
        assert isinstance(answer, Accepted)
        found = await stored(workers, key)
        # Either the beat came first and nothing was lost, or the loss stands and the beat began a new epoch.
        assert (found.epoch, found.owes_reschedule) == ((1, False) if isinstance(outcome, Conflict) else (2, True))
        assert answer.resurrected is not isinstance(outcome, Conflict)


async def test_a_plain_beat_leaves_no_line_in_the_story_and_a_registration_does(
    records: Records, workers: Workers
) -> None:
    await accepted(workers)
    for token in range(1, 20):
        await accepted(workers, token=token)
    assert [line.step for line in (await records.stories([KEY]))[KEY]] == ["register"]


# ---- timers


async def test_only_workers_past_their_deadline_are_suspects_the_longest_silent_first(workers: Workers) -> None:
    for key, lease in (("c", 30.0), ("a", 20.0), ("d", 40.000001), ("b", 10.0)):
        await accepted(workers, key, lease=lease)
    assert keys(await workers.suspects(later(9.999999), 10)) == []
    assert keys(await workers.suspects(later(40), 10)) == ["b", "a", "c"]
    assert keys(await workers.suspects(later(40), 2)) == ["b", "a"]
    assert (await workers.suspects(later(10), 10)) == [await stored(workers, "b")]


async def test_a_renewed_lease_is_no_suspect_and_its_timer_moves_to_the_deadline_once(workers: Workers) -> None:
    for key in ("a", "b", "c"):
        await accepted(workers, key)
    for key in ("a", "b"):
        await accepted(workers, key, token=1, at=later(50))
    assert keys(await workers.suspects(later(60), 10)) == ["c"]
    assert await workers.rearm(later(59), 10) == 0
    assert await workers.rearm(later(60), 10) == 2
    assert await workers.rearm(later(60), 10) == 0
    assert keys(await workers.suspects(later(60), 10)) == ["c"]
    assert keys(await workers.suspects(later(110), 10)) == ["c", "a", "b"]


async def test_a_rearm_moves_at_most_its_limit(workers: Workers) -> None:
    for number in range(5):
        await accepted(workers, key := f"w-{number}")
        await accepted(workers, key, token=1, at=later(50))
    assert [await workers.rearm(later(60), 2) for _ in range(4)] == [2, 2, 1, 0]
    assert len(await workers.suspects(later(110), 10)) == 5


async def test_a_shorter_lease_is_noticed_at_its_earlier_end_even_after_a_rearm(workers: Workers) -> None:
    await accepted(workers)
    await accepted(workers, token=1, at=later(10), lease=600.0)
    await workers.rearm(later(60), 10)
    await accepted(workers, token=2, at=later(70), lease=5.0)
    assert keys(await workers.suspects(later(74.999999), 10)) == []
    assert keys(await workers.suspects(later(75), 10)) == [KEY]
    await accepted(workers, token=3, at=later(76), lease=60.0)
    assert await workers.rearm(later(700), 10) == 0
    assert keys(await workers.suspects(later(700), 10)) == [KEY]


async def test_a_worker_that_came_back_is_noticed_when_it_goes_silent_again(records: Records, workers: Workers) -> None:
    await lost(records, workers)
    assert await workers.rearm(later(70), 10) == 0
    assert keys(await workers.suspects(later(70), 10)) == []
    await accepted(workers, token=1, at=later(80))
    assert keys(await workers.suspects(later(139), 10)) == []
    assert keys(await workers.suspects(later(140), 10)) == [KEY]


# ---- what is lost, owed and cleaned up


async def test_inactive_workers_are_cleaned_up_from_their_time_on(records: Records, workers: Workers) -> None:
    inactive = await lost(records, workers, "a")
    await lost(records, workers, "b", cleanup_at=later(1800))
    assert await workers.to_clean(later(1799), 10) == []
    assert keys(await workers.to_clean(later(3600), 10)) == ["b", "a"]
    assert keys(await workers.to_clean(later(3600), 1)) == ["b"]
    await records.apply(clean_up(inactive, later(9000)))
    await accepted(workers, "b", token=1, at=later(3000))
    assert await workers.to_clean(later(3600), 10) == []


async def test_a_lost_epoch_is_owed_until_it_is_settled_whatever_happens_to_its_worker(
    records: Records, workers: Workers
) -> None:
    inactive = await lost(records, workers, "a")
    assert await workers.owing(10) == [inactive]
    await accepted(workers, "a", token=1, at=later(90))
    await records.apply(clean_up(await lost(records, workers, "b"), later(9000)))
    await records.apply(settle(await lost(records, workers, "c")))
    assert keys(await workers.owing(10)) == ["a", "b"]
    assert keys(await workers.owing(1)) == ["a"]


async def test_the_lost_are_listed_until_they_come_back_or_are_cleaned_up(records: Records, workers: Workers) -> None:
    assert await workers.lost(10) == []
    await accepted(workers, "lives")
    gone = [await lost(records, workers, key) for key in ("a", "b", "c")]
    assert sorted(keys(await workers.lost(10))) == ["a", "b", "c"]
    assert {one.id: one for one in await workers.lost(10)} == {one.id: one for one in gone}
    assert len(await workers.lost(2)) == 2
    await accepted(workers, "b", token=gone[1].token, at=later(70))
    await records.apply(clean_up(gone[2], later(9000)))
    assert keys(await workers.lost(10)) == ["a"]


async def test_a_worker_that_is_leaving_is_listed_as_such_until_it_is_lost(records: Records, workers: Workers) -> None:
    await accepted(workers, "a")
    await accepted(workers, "b", leaving=later(120))
    assert (await stored(workers, "b")).leaving == later(120)
    assert [one.id for one in await workers.leaving(10)] == ["b"]
    await accepted(workers, "a", token=1, leaving=later(60))
    assert keys(await workers.leaving(10)) == ["a", "b"]
    assert keys(await workers.leaving(1)) == ["a"]
    await records.apply(lose(await stored(workers, "a"), later(60)))
    assert keys(await workers.leaving(10)) == ["b"]


async def test_the_first_notice_of_a_machines_end_stands_whatever_later_beats_say(workers: Workers) -> None:
    await accepted(workers, "a", leaving=later(120))
    assert (await accepted(workers, "a", token=1)).leaving == later(120)
    assert (await accepted(workers, "a", token=2, leaving=later(900))).leaving == later(120)
    assert (await stored(workers, "a")).leaving == later(120)


async def test_all_but_tombstones_are_listed_by_key_and_counted_by_domain_and_state(
    records: Records, workers: Workers
) -> None:
    for key, domain in (("c", "zone-a"), ("a", "zone-a"), ("b", "zone-b")):
        await accepted(workers, key, domain=domain)
    await lost(records, workers, "d")
    await records.apply(clean_up(await lost(records, workers, "e"), later(9000)))
    assert keys(await workers.listed(10)) == ["a", "b", "c", "d"]
    assert keys(await workers.listed(2, after="a")) == ["b", "c"]
    assert await workers.census() == {("zone-a", "active"): 2, ("zone-b", "active"): 1, ("zone-a", "inactive"): 1}


async def test_the_census_follows_a_worker_to_another_domain_and_back_to_life(
    records: Records, workers: Workers
) -> None:
    await lost(records, workers)
    await accepted(workers, token=1, at=later(90), domain="zone-b")
    assert await workers.census() == {("zone-b", "active"): 1}
    await accepted(workers, token=2, at=later(91), domain="zone-c")
    assert await workers.census() == {("zone-c", "active"): 1}


# ---- cards and controls


async def test_a_card_is_kept_as_it_was_said_last(workers: Workers) -> None:
    await accepted(workers)
    await workers.describe(KEY, Card(pid=1))
    card = Card(("gpu", "ü"), "build-7", "host", 42, "1.0", (("region", "eu"), ("rack", "'7'")))
    for _ in range(2):
        await workers.describe(KEY, card)
    assert await workers.cards([KEY, "nobody"]) == {KEY: card}


async def test_a_card_goes_when_its_worker_is_cleaned_up(records: Records, workers: Workers) -> None:
    inactive = await lost(records, workers)
    await workers.describe(KEY, Card(pid=1))
    await records.apply(clean_up(inactive, later(9000)))
    assert await workers.cards([KEY]) == {}


async def test_a_worker_that_stops_is_a_tombstone_at_once(records: Records, workers: Workers) -> None:
    worker = await accepted(workers)
    await workers.describe(KEY, Card(pid=1))
    (stopped,) = await records.apply(stop(worker, later(9000)))
    assert await stored(workers) == stopped
    assert (stopped.state, stopped.deadline, stopped.purge_at) == (CLEANED_UP, None, later(9000))
    assert await workers.beat([(KEY, a_beat(1))]) == [Rejected(Code.CLEANED_UP, CLEANED_UP, 1)]
    assert await workers.cards([KEY]) == {}
    assert await workers.listed(10) == await workers.suspects(later(600), 10) == await workers.leaving(10) == []
    assert await workers.to_clean(later(9000), 10) == []
    assert keys(await workers.owing(10)) == [KEY]
    assert [line.step for line in (await records.stories([KEY]))[KEY]] == ["register", "stop"]


async def test_a_beat_and_a_stop_at_once_leave_one_of_them(records: Records, workers: Workers) -> None:
    worker = await accepted(workers)
    (beaten,), (ended,) = await asyncio.gather(
        workers.beat([(KEY, a_beat(1))]), records.apply_each([stop(worker, later(9000))])
    )
    assert isinstance(beaten, Accepted) == isinstance(ended, Conflict)
    assert (await stored(workers)).state is (ACTIVE if isinstance(beaten, Accepted) else CLEANED_UP)


async def test_a_card_of_a_worker_that_is_unknown_or_cleaned_up_is_not_stored(
    records: Records, workers: Workers
) -> None:
    """The process that received the beat may have been stopped between the beat and its card."""
    await records.apply(clean_up(await lost(records, workers), later(9000)))
    for key in (KEY, "i-2/unknown"):
        await workers.describe(key, Card(pid=1))
        assert await workers.cards([key]) == {}
    assert await workers.workers(["i-2/unknown"]) == {}


async def test_controls_land_like_every_record(records: Records, workers: Workers) -> None:
    assert await workers.controls() == {}
    (recovered,) = await records.apply(ingest(absent("ingest"), Ingested(at=NOW, by="a test", recovered=True)))
    (spent,) = await records.apply(spend(absent("zone-a"), Spent(at=NOW, by="a test", budget=0.25)))
    (held,) = await records.apply(hold(absent("zone-b"), Holding(at=NOW, by="a test", why="all silent")))
    assert await workers.controls() == {"ingest": recovered, "zone-a": spent, "zone-b": held}
    assert [held, recovered] == [
        Control("zone-b", held.state, 1, held_since=NOW, why="all silent"),
        Control("ingest", recovered.state, 1, ingest_at=NOW, recovered_at=NOW),
    ]
    (lifted,) = await records.apply(lift(held, Holding(at=later(1), by="a test")))
    assert lifted.recovered_at == later(1)


async def test_of_many_writers_that_spend_one_budget_one_does(records: Records, workers: Workers) -> None:
    spends = [spend(absent("zone-a"), Spent(at=NOW, by="a test", budget=float(n))) for n in range(16)]
    outcomes = await records.apply_each(spends)
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 15
    assert (await workers.controls())["zone-a"].version == 1


# ---- the heartbeat of an instance


async def test_the_heartbeat_of_an_instance_is_that_of_its_newest_worker(signals: Signals, workers: Workers) -> None:
    await accepted(workers, "i-1/old", at=later(1))
    await accepted(workers, "i-1/new", at=later(2))
    await accepted(workers, "i-1/new", token=1, at=later(3))
    await accepted(workers, "i-2/other", at=later(9), instance_id="i-2")
    pulses = await signals.read(["i-1", "i-2", "i-3"])
    assert pulses["i-1"].heartbeat == Heartbeat("i-1", later(3), 2)
    assert pulses["i-2"].heartbeat == Heartbeat("i-2", later(9), 1)
    assert pulses["i-3"].heartbeat is None


async def test_an_instance_is_alive_while_any_worker_beats_for_it(signals: Signals, workers: Workers) -> None:
    await accepted(workers, "i-1/one")
    await accepted(workers, "i-1/two", at=later(1))
    for key, token, at in (("i-1/one", 1, 2), ("i-1/two", 1, 3), ("i-1/one", 2, 60)):
        await accepted(workers, key, token=token, at=later(at))
        pulse = (await signals.read(["i-1"]))["i-1"]
        assert pulse.heartbeat == Heartbeat("i-1", later(at), token + 1)


async def test_a_bare_heartbeat_is_a_worker_with_a_lease(signals: Signals, workers: Workers) -> None:
    assert await signals.beat(Heartbeat("i-1", NOW, 5))
    assert keys(await workers.listed(10)) == ["i-1/direct"]
    assert keys(await workers.suspects(later(60), 10)) == ["i-1/direct"]
    assert await signals.beat(Heartbeat("i-1", later(50), 6))
    assert await workers.suspects(later(60), 10) == []


# ---- checks


def is_alive(worker: Worker) -> Check:
    guards = (Guard("state", "is", ACTIVE), Guard("epoch", "is", worker.epoch), Guard("deadline", "after", NOW))
    return Check(Worker, worker.id, guards)


async def test_a_change_lands_if_its_checks_hold(records: Records, workers: Workers) -> None:
    worker, instance = await accepted(workers), await land(records, running("i-1"))
    runs = Check(Instance, instance.id, (Guard("state", "is", RUNNING), Guard("run_id", "in", ("run-1", "run-2"))))
    (job,) = await records.apply(assign(await submitted(records)), checks=[is_alive(worker), runs])
    assert job.worker == worker.id
    assert await stored(workers) == worker


@pytest.mark.parametrize(
    "change",
    [
        lambda worker: lose(worker, later(60)),
        lambda worker: steps.heartbeat(replace(worker), a_beat(1, at=NOW, lease=0.0)),
    ],
)
async def test_nothing_lands_if_a_check_fails(
    records: Records, workers: Workers, change: Callable[[Worker], Change[Worker]]
) -> None:
    worker, job = await accepted(workers), await submitted(records)
    (moved,) = await records.apply(change(worker))
    with pytest.raises(Conflict) as refused:
        await records.apply(assign(job), checks=[is_alive(worker)])
    assert refused.value.found == moved
    (unmoved,) = await records.apply(assign(job))
    assert unmoved.fence == 1


async def test_a_check_of_an_absent_record_fails(records: Records) -> None:
    job = await submitted(records)
    with pytest.raises(Conflict) as refused:
        await records.apply(assign(job), checks=[Check(Worker, "nobody", ())])
    assert refused.value.found is None


async def test_changes_and_checks_together_have_one_limit(records: Records, workers: Workers) -> None:
    worker, job = await accepted(workers), await submitted(records)
    with pytest.raises(ValueError, match="at most"):
        await records.apply(assign(job), checks=[is_alive(worker)] * TOGETHER_LIMIT)
    await records.apply(assign(job), checks=[is_alive(worker)] * (TOGETHER_LIMIT - 1))


async def test_no_job_is_assigned_to_a_worker_that_is_lost_at_the_same_time(records: Records, workers: Workers) -> None:
    for number in range(20):
        worker = await accepted(workers, key := f"w-{number}")
        job = await submitted(records, f"j-{number}")
        taking = records.apply(assign(job, key), checks=[is_alive(worker)])
        expiring = records.apply_each([lose(worker, later(60))])
        taken, _ = await asyncio.gather(taking, expiring, return_exceptions=True)
        if isinstance(taken, Conflict):
            assert (await stored(workers, key)).state is INACTIVE
        # Otherwise the job was there before the loss: the process that settles it finds the job.


# ---- purged


@pytest.mark.purging
async def test_a_tombstone_is_purged_from_its_time_on_with_its_story(records: Records, workers: Workers) -> None:
    (tombstone,) = await records.apply(clean_up(await lost(records, workers), later(9000)))
    assert await records.purge(later(9000), 10) == 0  # it still owes its jobs
    await records.apply(settle(tombstone))
    assert await records.purge(later(8999), 10) == 0
    assert await records.purge(later(9000), 10) == 1
    assert await workers.workers([KEY]) == {}
    assert not (await records.stories([KEY])).get(KEY)


@pytest.mark.purging
async def test_a_beat_with_a_purged_key_is_refused(records: Records, workers: Workers) -> None:
    """A worker that was answered has a token, and no token fits a key that is not known."""
    (tombstone,) = await records.apply(clean_up(await lost(records, workers), later(9000)))
    await records.apply(settle(tombstone))
    await records.purge(later(9000), 10)
    assert await workers.beat([(KEY, a_beat(1))]) == [Rejected(Code.UNKNOWN, steps.ABSENT, 0)]
    assert await workers.workers([KEY]) == {}


@pytest.mark.purging
async def test_a_first_beat_with_a_purged_key_begins_in_a_later_epoch_than_the_key_ever_had(
    records: Records, workers: Workers
) -> None:
    """A process may sleep through its lease, the clean-up and the purge, with its first beat still on its way."""
    epochs = []
    for _ in range(3):
        worker = await lost(records, workers)
        (back,) = await workers.beat([(KEY, a_beat(1, at=later(90)))])
        assert isinstance(back, Accepted)
        epochs += [worker.epoch, back.epoch]
        (again,) = await records.apply(lose(await stored(workers), later(150)))
        (tombstone,) = await records.apply(clean_up(again, later(9000)))
        await records.apply(settle(tombstone))
        assert await records.purge(later(9000), 10) == 1
    assert epochs == [1, 2, 3, 4, 5, 6]


@pytest.mark.purging
async def test_a_bare_heartbeat_after_the_purge_of_its_instance_begins_in_a_later_epoch(
    records: Records, signals: Signals, workers: Workers, history: History
) -> None:
    key = direct_key("i-1")
    await signals.beat(Heartbeat("i-1", NOW, 1))
    await workers.describe(key, Card(pid=1))
    await land(records, buried("i-1", purge_at=later(60)))
    await book_to_their_ends(history, "i-1")
    assert await records.purge(later(60), 10) == 1
    assert await workers.cards([key]) == {}
    await signals.beat(Heartbeat("i-1", later(90), 2))
    assert (await stored(workers, key)).epoch == 2


@pytest.mark.purging
async def test_the_workers_of_a_purged_instance_stay_until_their_own_time(
    records: Records, signals: Signals, workers: Workers, history: History
) -> None:
    await land(records, buried("i-1", purge_at=later(60)))
    await book_to_their_ends(history, "i-1")
    worker = await accepted(workers)
    await signals.beat(Heartbeat("i-1", NOW, 1))
    assert await records.purge(later(60), 10) == 1
    assert await workers.listed(10) == [worker]
    assert await workers.census() == {("zone-a", "active"): 1}


# ---- leases of instances, for people


async def test_the_leases_that_were_renewed_since_a_time_are_those_of_active_workers_of_instances(
    records: Records, workers: Workers
) -> None:
    first = await accepted(workers, "i-1/a", at=later(1), instance_id="i-1", lease=15.0)
    second = await accepted(workers, "i-2/a", at=later(5), instance_id="i-2", lease=30.0)
    await accepted(workers, "builder-7", at=later(5), instance_id="")
    gone = await accepted(workers, "i-3/a", at=later(5), instance_id="i-3", lease=15.0)
    assert gone.deadline is not None
    await records.apply(lose(gone, gone.deadline))
    found = {one.instance_id: one for one in await workers.leases(later(-1), 10)}
    assert found == {
        one.instance_id: HeldLease(one.instance_id, one.deadline, one.lease, one.beat_at)
        for one in (first, second)
        if one.deadline and one.beat_at
    }
    assert [one.instance_id for one in await workers.leases(later(1), 10)] == ["i-2"]
    assert await workers.leases(later(5), 10) == []
    renewed = await accepted(workers, "i-1/a", token=first.token, at=later(9), instance_id="i-1", lease=15.0)
    (lease,) = await workers.leases(later(5), 10)
    assert (lease.instance_id, lease.deadline) == ("i-1", renewed.deadline)


async def test_the_leases_of_a_bounded_number_of_workers_are_looked_at(workers: Workers) -> None:
    for number in range(4):
        await accepted(workers, f"i-{number}/a", at=later(1), instance_id=f"i-{number}")
    assert len(await workers.leases(NOW, 3)) == 3
