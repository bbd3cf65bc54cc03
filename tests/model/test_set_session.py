"""What each step of a scale set's session promises: one process listens, and what it heard outlives it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import later
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import set_session as sessions
from bullpen.model.set_session import (
    ABSENT,
    FREE,
    HELD,
    OFFERED_LIMIT,
    STARTED_LIMIT,
    STEPS,
    TEXT_LIMIT,
    WAITING_LIMIT,
    WHY_LIMIT,
    JobCounts,
    SetSession,
)
from bullpen.model.transition import Change
from set_builders import (
    LEASE,
    NAME,
    a_ready_set,
    a_started_job,
    a_waiting_job,
    held,
    open_session,
    record_failure,
    record_message,
    renew,
    take,
    yield_session,
)

OF_THE_HOLDER: dict[str, Callable[..., Change[SetSession]]] = {
    "renew": renew,
    "open_": open_session,
    "record_message": record_message,
    "record_failure": record_failure,
    "yield_": yield_session,
}


def test_a_session_has_another_id_than_its_set_and_names_it() -> None:
    assert (held().id, held().set_name) == (sessions.session_id(NAME), NAME)
    assert held().id != a_ready_set().id


# ---- taken


def test_the_first_holder_takes_the_session_in_the_first_epoch() -> None:
    taken = take(round="r", at=later(3)).after
    assert (taken.state, taken.holder, taken.round, taken.epoch) == (HELD, "web-1", "r", 1)
    assert (taken.taken_at, taken.beat_at) == (later(3), later(3))


def test_a_free_session_is_taken_without_waiting() -> None:
    free = yield_session(held()).after
    assert take(free, "web-2", watched=0, stood_still=0.0).after.holder == "web-2"


def test_a_held_session_is_taken_once_it_stood_still_for_a_whole_lease() -> None:
    before = held()
    taken = take(before, "web-2", watched=before.version, stood_still=LEASE).after
    assert (taken.holder, taken.epoch) == ("web-2", before.epoch + 1)


def test_what_the_ci_dropped_is_counted_for_each_holder() -> None:
    before = renew(held(), dropped=3).after
    assert (before.dropped, renew(before).after.dropped) == (3, 3)
    assert take(before, "web-2").after.dropped == 0


def test_a_held_session_is_not_taken_before_that() -> None:
    before = held()
    with pytest.raises(Conflict, match="may hold it") as refused:
        take(before, "web-2", watched=before.version, stood_still=LEASE - 0.1)
    assert refused.value.found == before


def test_a_session_that_was_renewed_while_it_was_watched_is_not_taken() -> None:
    before = held()
    with pytest.raises(Conflict, match="has renewed it"):
        take(renew(before).after, "web-2", watched=before.version, stood_still=100 * LEASE)


def test_no_time_on_the_wall_decides_whether_a_session_is_taken() -> None:
    before = renew(held(), at=later(10**6)).after
    assert take(before, "web-2", at=later(-(10**6))).after.holder == "web-2"
    with pytest.raises(Conflict):
        take(renew(held()).after, "web-2", at=later(10**6), stood_still=0.0)


def test_what_was_heard_outlives_its_holder() -> None:
    news: dict[str, Any] = {"waiting": (a_waiting_job(),), "started": (a_started_job(),), "missing": 3, "phantom": 2}
    before = record_message(held(), **news).after
    taken = take(before, "web-2").after
    for name in ("waiting", "started", "missing", "phantom", "statistics", "heard_at", "ci_session"):
        assert getattr(taken, name) == getattr(before, name) != getattr(sessions.absent(NAME), name)


def test_the_failure_of_one_holder_is_not_the_failure_of_the_next() -> None:
    taken = take(record_failure(held()).after, "web-2").after
    assert (taken.why, taken.failing_since) == ("", None)


# ---- fenced


@pytest.mark.parametrize("step", OF_THE_HOLDER)
def test_a_paused_holder_writes_nothing_more_after_another_has_taken_the_session(step: str) -> None:
    paused = held()
    taken = take(paused, "web-2").after
    for lie in ({"holder": "web-1", "epoch": paused.epoch}, {"epoch": paused.epoch}, {"holder": "web-1"}):
        with pytest.raises(Conflict):
            OF_THE_HOLDER[step](taken, **lie)


@pytest.mark.parametrize("step", OF_THE_HOLDER)
def test_the_store_is_asked_for_holder_and_epoch(step: str) -> None:
    session = held()
    for guard in OF_THE_HOLDER[step](session).guards:
        assert guard.holds(session)
    stored = replace(session, epoch=session.epoch + 1)
    assert not all(guard.holds(stored) for guard in OF_THE_HOLDER[step](session).guards)


def test_a_process_that_was_named_alike_is_fenced_by_its_epoch() -> None:
    paused = held("web-1")
    restarted = take(paused, "web-1").after
    with pytest.raises(Conflict, match="epoch"):
        renew(restarted, epoch=paused.epoch)


def test_a_check_for_a_holder_fails_in_the_next_epoch() -> None:
    paused = held()
    check = sessions.must_be_held(paused)
    assert all(guard.holds(renew(paused).after) for guard in check.guards)
    assert not all(guard.holds(take(paused, "web-1").after) for guard in check.guards)
    assert not all(guard.holds(yield_session(paused).after) for guard in check.guards)


# ---- renewed


def test_a_renewal_changes_the_version_and_leaves_no_line() -> None:
    change = renew(held(), at=later(5))
    assert change.after.version == change.before.version + 1
    assert (change.after.beat_at, change.line) == (later(5), None)


def test_a_renewal_writes_what_it_names_and_keeps_the_rest() -> None:
    before = record_message(held(), missing=3, phantom=2, waiting=(a_waiting_job(),)).after
    after = renew(before, missing=0).after
    assert (after.missing, after.phantom, after.waiting) == (0, 2, before.waiting)
    assert renew(before, phantom=0, waiting=()).after.waiting == ()


# ---- opened, heard


def test_an_opened_session_begins_without_a_message_and_with_the_statistics_of_now() -> None:
    before = record_message(held(), 41).after
    after = open_session(before, ci_session="s-2", statistics=JobCounts(4, 4), at=later(9)).after
    assert (after.ci_session, after.message, after.statistics) == ("s-2", 0, JobCounts(4, 4))
    assert (after.opened_at, after.heard_at) == (later(9), later(9))


def test_a_session_that_opens_without_statistics_keeps_the_last_ones_and_their_age() -> None:
    before = record_message(held(), statistics=JobCounts(5, 2)).after
    after = open_session(before, statistics=None, at=later(9)).after
    assert (after.statistics, after.heard_at) == (JobCounts(5, 2), before.heard_at)


def test_a_message_is_recorded_with_its_effect() -> None:
    after = record_message(held(), 7, statistics=JobCounts(9, 3), started=(a_started_job(),), at=later(2)).after
    assert (after.message, after.statistics, after.heard_at) == (7, JobCounts(9, 3), later(2))
    assert after.started == (a_started_job(),)


@pytest.mark.parametrize("message", [1, 6, 7])
def test_a_message_that_comes_again_or_late_is_not_recorded_again(message: int) -> None:
    before = record_message(held(), 7).after
    with pytest.raises(Conflict, match="recorded before") as refused:
        record_message(before, message)
    assert refused.value.found == before


def test_statistics_that_come_without_a_message_leave_its_number() -> None:
    after = record_message(record_message(held(), 7).after, 0, statistics=JobCounts(1, 0)).after
    assert (after.message, after.statistics) == (7, JobCounts(1, 0))


def test_offers_stay_until_a_message_or_the_counts_change_them() -> None:
    offered = record_message(held(), offered=(1, 2)).after
    assert renew(offered, missing=3).after.offered == (1, 2)
    assert take(yield_session(offered).after, "web-2").after.offered == (1, 2)
    assert record_message(offered, 2, offered=()).after.offered == ()


def test_of_many_offers_the_newest_are_kept() -> None:
    assert record_message(held(), offered=tuple(range(OFFERED_LIMIT + 5))).after.offered == tuple(
        range(5, OFFERED_LIMIT + 5)
    )


def test_of_many_jobs_those_that_wait_longest_and_those_that_started_last_are_kept() -> None:
    waiting = tuple(a_waiting_job(f"job-{n}") for n in range(WAITING_LIMIT + 5))
    started = tuple(a_started_job(f"job-{n}") for n in range(STARTED_LIMIT + 5))
    after = record_message(held(), waiting=waiting, started=started).after
    assert after.waiting == waiting[:WAITING_LIMIT]
    assert after.started == started[5:]


def test_a_long_name_is_cut_and_the_rest_stays() -> None:
    after = renew(held(), waiting=(a_waiting_job(name="x" * 10_000, why="y" * 10_000),)).after
    (job,) = after.waiting
    assert (len(job.name), len(job.why), job.id) == (TEXT_LIMIT, TEXT_LIMIT, "job-1")


def test_a_text_is_cut_by_its_bytes_and_between_two_characters() -> None:
    (job,) = renew(held(), waiting=(a_waiting_job(name="x" + "\N{GRINNING FACE}" * 100),)).after.waiting
    assert job.name == "x" + "\N{GRINNING FACE}" * 49
    assert len(job.name.encode()) <= TEXT_LIMIT


def test_what_cannot_be_written_as_utf_8_is_replaced() -> None:
    (job,) = renew(held(), waiting=(a_waiting_job(name="a\ud800b"),)).after.waiting
    assert job.name == "a?b"


# ---- failed, yielded


def test_a_failure_tells_why_and_since_when() -> None:
    first = record_failure(held(), "409", at=later(1)).after
    second = record_failure(first, "no answer " + "." * WHY_LIMIT, at=later(60)).after
    assert (first.why, first.failing_since) == ("409", later(1))
    assert (second.why[:9], len(second.why), second.failing_since) == ("no answer", WHY_LIMIT, later(1))


@pytest.mark.parametrize("step", [open_session, record_message])
def test_what_is_heard_ends_the_failure(step: Callable[[SetSession], Change[SetSession]]) -> None:
    after = step(record_failure(held()).after).after
    assert (after.why, after.failing_since) == ("", None)


def test_a_renewal_does_not_end_the_failure() -> None:
    assert renew(record_failure(held(), "409").after).after.why == "409"


@pytest.mark.parametrize(("closed", "left"), [(True, ""), (False, "s-1")])
def test_a_session_that_is_yielded_is_free_and_names_what_may_still_be_open(closed: bool, left: str) -> None:
    free = yield_session(held(), closed=closed).after
    assert (free.state, free.holder, free.ci_session) == (FREE, "", left)


# ---- all steps


@pytest.mark.parametrize("step", OF_THE_HOLDER)
@pytest.mark.parametrize("session", [sessions.absent(NAME), yield_session(held()).after], ids=lambda one: one.state)
def test_without_a_holder_there_is_no_step_but_to_take_it(step: str, session: SetSession) -> None:
    with pytest.raises(InvalidTransition):
        OF_THE_HOLDER[step](session)


def test_every_step_is_tried() -> None:
    assert [step.step for step in STEPS] == ["take", *OF_THE_HOLDER]
    (first,) = (step for step in STEPS if step.step == "take")
    assert set(first.sources) == {ABSENT, FREE, HELD}


@given(st.lists(st.sampled_from(["take", *OF_THE_HOLDER]), max_size=20))
def test_an_epoch_has_one_round_and_one_holder(tries: list[str]) -> None:
    session = sessions.absent(NAME)
    owners: dict[int, tuple[str, str]] = {}
    for number, name in enumerate(tries):
        before = session
        try:
            change = take(session, f"web-{number}") if name == "take" else OF_THE_HOLDER[name](session)
        except (Conflict, InvalidTransition):
            continue
        session = change.after
        assert session.epoch == before.epoch + (name == "take")
        assert change.draws_round is (before.round != session.round)
        if session.state is HELD:
            assert owners.setdefault(session.epoch, (session.round, session.holder)) == (session.round, session.holder)
