"""What every store of history promises."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders import NOW, adopt, buried, claim, commit, done, expire, later, register, release
from bullpen.errors import FailureCause
from bullpen.history.bookkeeper import book, book_ended
from bullpen.model.activity_note import NOTE_LENGTH, ActionNote
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.report import LANES_KEPT, REASON_LENGTH, Lane, ProvisionReport, ReportOutcome
from bullpen.model.texts import fitting
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Booking, Meter, Owner, UsageRow
from bullpen.pool.live_instances import every_live
from bullpen.ports import History, Ports
from conformance.landing import land

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MIDNIGHT = datetime(2030, 1, 1, tzinfo=UTC)


def a_report(id: str = "p-1", ended_at: datetime = NOW, **more: object) -> ProvisionReport:
    found = ProvisionReport(
        id, "run-1", "acme/widgets", "small", UsageClass.SPOT, "default", NOW, ended_at, ReportOutcome.MET
    )
    return replace(found, **more)  # type: ignore[arg-type]


def a_note(subject: str, at: datetime = NOW, by: str = "serve/reap", did: str = "end instance") -> ActionNote:
    return ActionNote(at, by, did, subject, "past its threshold")


def a_row(micros: int, hour: datetime = MIDNIGHT, owner: Owner = Owner.RUN, run_id: str = "run-1") -> UsageRow:
    return UsageRow(hour, owner, run_id, "acme/widgets", "small", "m7g.large", UsageClass.ON_DEMAND, micros)


def a_meter(id: str = "i-1", revision: int = 1, **more: object) -> Meter:
    return replace(Meter(id, revision, NOW, Owner.RUN, 4, "run-1", "acme/widgets"), **more)  # type: ignore[arg-type]


def first(id: str = "i-1", *rows: UsageRow) -> Booking:
    return Booking(None, a_meter(id), rows)


async def all_usage(
    history: History, since: datetime = MIDNIGHT - DAY, until: datetime = MIDNIGHT + DAY
) -> list[UsageRow]:
    return list((await history.usage(since, until, 1000)).rows)


# ---- reports


async def test_a_report_is_read_as_it_was_stored(history: History) -> None:
    lanes = (
        Lane("i-1", Origin.SELECTED, picked=0.01, claimed=0.05, seen=0.2, registered=3.5, kept=True),
        Lane("i-2", Origin.CREATED, launched=1.5, reason="did not register", fate="terminated"),
    )
    told = a_report(
        cause=FailureCause.CAPACITY,
        reason="no room for ü",
        outcome=ReportOutcome.FAILED,
        ended_at=NOW + timedelta(microseconds=123456),
        requested=2,
        taken=3,
        timings={WorkPhase.ACQUIRE: 1.25, WorkPhase.SETTLE: 0.5},
        lanes=lanes,
    )
    await history.note_provision(told)
    assert await history.report("p-1") == told
    assert (await history.reports(NOW, NOW + HOUR, 10)).rows == (told,)


async def test_an_unknown_report_is_none(history: History) -> None:
    assert await history.report("p-404") is None


async def test_reports_are_listed_by_their_end_the_newest_first_in_pages(history: History) -> None:
    ends = [NOW + timedelta(hours=hours) for hours in (-30, -20, 0, 1, 2, 50)]
    for n, ended in enumerate(ends):
        await history.note_provision(a_report(f"p-{n}", ended))
    await history.note_provision(a_report("p-9", ends[3]))  # at the same time as another one
    page = await history.reports(ends[1], ends[5], 2)
    found = [*page.rows]
    while page.next:
        page = await history.reports(ends[1], ends[5], 2, page.next)
        found += page.rows
    assert [one.id for one in found] == ["p-4", "p-9", "p-3", "p-2", "p-1"]


async def test_a_report_that_is_noted_again_stays_one(history: History) -> None:
    await history.note_provision(a_report())
    await history.note_provision(a_report())
    assert len((await history.reports(NOW, NOW + HOUR, 10)).rows) == 1


# ---- activity


async def test_notes_are_read_as_they_were_stored_the_newest_first(history: History) -> None:
    notes = [replace(a_note(f"i-{n}", later(n)), is_done=n != 1, trouble=n == 2) for n in range(4)]
    await history.note_actions(notes[:2])
    await history.note_actions(notes[2:])
    assert (await history.actions(NOW, NOW + 9 * DAY, 10)).rows == tuple(reversed(notes))


async def test_no_note_is_no_write(history: History) -> None:
    await history.note_actions([])
    assert (await history.actions(NOW - DAY, NOW + DAY, 10)).rows == ()


@pytest.mark.parametrize("letter", ["x", "\u20ac", '"', "\x01"])
async def test_the_longest_notes_are_stored_however_many_come_at_once(history: History, letter: str) -> None:
    """DynamoDB takes no item of more than 400 KB, and a batch that cannot be written is tried again for ever."""
    text = fitting(letter * NOTE_LENGTH, NOTE_LENGTH)
    notes = [ActionNote(later(n), text, text, f"i-{n}", text) for n in range(250)]
    await history.note_actions(notes)
    page = await history.actions(NOW, NOW + 9 * DAY, 100)
    found = [*page.rows]
    while page.next:
        page = await history.actions(NOW, NOW + 9 * DAY, 100, page.next)
        found += page.rows
    assert found == notes[::-1]


async def test_a_report_with_every_lane_and_the_longest_reasons_is_stored(history: History) -> None:
    reason = fitting('"\u20ac\n' * REASON_LENGTH, REASON_LENGTH)
    lanes = tuple(Lane(f"i-{n:017}", Origin.CREATED, reason=reason, fate="terminated") for n in range(LANES_KEPT))
    told = a_report(reason=reason, lanes=lanes)
    await history.note_provision(told)
    assert await history.report("p-1") == told


async def test_notes_come_in_pages_over_days(history: History) -> None:
    notes = [a_note(f"i-{n}", NOW + n * timedelta(hours=9)) for n in range(8)]
    for note in notes:
        await history.note_actions([note])
    page = await history.actions(NOW, NOW + 9 * DAY, 3)
    found = [*page.rows]
    while page.next:
        page = await history.actions(NOW, NOW + 9 * DAY, 3, page.next)
        found += page.rows
    assert found == notes[::-1]


async def test_notes_from_before_the_range_are_not_read(history: History) -> None:
    await history.note_actions([a_note("old", NOW - DAY)])
    await history.note_actions([a_note("new")])
    assert [one.subject for one in (await history.actions(NOW, NOW + 9 * DAY, 10)).rows] == ["new"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"by": "serve"}, ["c", "A"]),
        ({"by": "serve/reap"}, ["A"]),
        ({"by": "ser"}, []),
        ({"did": "launch"}, ["c"]),
        ({"containing": "a"}, ["b", "A"]),
        ({"containing": "THRESHOLD", "by": "refresh"}, ["b"]),
    ],
)
async def test_filters_select_notes(history: History, filters: dict[str, str], expected: list[str]) -> None:
    launch = replace(a_note("c", later(2), "serve/warm", "launch"), reason="too few")
    await history.note_actions([a_note("A"), a_note("b", later(1), "refresh"), launch])
    assert [one.subject for one in (await history.actions(NOW, NOW + 9 * DAY, 10, **filters)).rows] == expected


async def test_a_page_of_filtered_notes_may_be_short_and_has_a_next_one(history: History) -> None:
    for part in range(12):
        await history.note_actions([a_note(f"i-{part}-{n}", later(part * 100 + n)) for n in range(100)])
    wanted = "i-0-42"
    page = await history.actions(NOW, NOW + 9 * DAY, 1, containing=wanted)
    found = [*page.rows]
    while page.next:
        page = await history.actions(NOW, NOW + 9 * DAY, 1, page.next, containing=wanted)
        found += page.rows
    assert [one.subject for one in found] == [wanted]


# ---- usage


async def test_a_booking_lands_its_meter_and_its_time(history: History) -> None:
    rows = (a_row(5), replace(a_row(7), owner=Owner.IDLE, run_id="", repository="", usage_class=UsageClass.SPOT))
    assert await history.book([first("i-1", *rows)]) == [True]
    assert await history.meters(["i-1", "i-2"]) == {"i-1": a_meter()}
    assert sorted(await all_usage(history), key=lambda row: row.microseconds) == list(rows)


async def test_equal_rows_are_added_up_exactly(history: History) -> None:
    large = 10**15 + 1
    assert (
        await history.book([first("i-1", a_row(large)), first("i-2", a_row(2)), first("i-3", a_row(3))]) == [True] * 3
    )
    assert await all_usage(history) == [a_row(large + 5)]


async def test_the_second_booking_of_a_meter_loses(history: History) -> None:
    await history.book([first("i-1", a_row(1))])
    assert await history.book([first("i-1", a_row(1)), first("i-2", a_row(2))]) == [False, True]
    after = a_meter(revision=2, until=later(9), owner=Owner.IDLE, run_id="", repository="", version=7)
    assert await history.book([Booking(a_meter(), after, (a_row(4),))]) == [True]
    assert await history.book([Booking(a_meter(), after, (a_row(4),))]) == [False]
    assert await history.meters(["i-1"]) == {"i-1": after}
    assert await all_usage(history) == [a_row(7)]


async def test_of_many_bookings_at_once_one_lands(history: History) -> None:
    outcomes = await asyncio.gather(*(history.book([first("i-1", a_row(n + 1))]) for n in range(8)))
    (landed,) = [n for n, (outcome,) in enumerate(outcomes) if outcome]
    assert await all_usage(history) == [a_row(landed + 1)]


async def test_many_bookings_at_once_land_each(history: History) -> None:
    many = [first(f"i-{n:03}", a_row(1), a_row(2, MIDNIGHT + HOUR, run_id=f"run-{n % 50}")) for n in range(230)]
    assert await history.book(many) == [True] * 230
    assert sum(row.microseconds for row in await all_usage(history)) == 690
    meters, page = [], await history.open_meters(100)
    while page:
        meters += page
        page = await history.open_meters(100, page[-1].instance_id)
    assert [one.instance_id for one in meters] == [f"i-{n:03}" for n in range(230)]


async def test_a_meter_that_is_over_is_not_booked_again(history: History) -> None:
    over = a_meter(revision=2, over=True)
    assert await history.book([first(), first("i-2")]) == [True, True]
    assert await history.book([Booking(a_meter(), over, (a_row(1),))]) == [True]
    assert await history.book([Booking(over, replace(over, revision=3), (a_row(1),))]) == [False]
    assert await history.book([first("i-1", a_row(1))]) == [False]
    assert await history.meters(["i-1"]) == {}
    assert await history.over(["i-2", "i-1", "i-1", "i-404"]) == ["i-1"]
    assert await history.over([]) == []
    assert [one.instance_id for one in await history.open_meters(10)] == ["i-2"]
    assert await all_usage(history) == [a_row(1)]


async def test_a_machine_may_be_booked_once_from_first_to_last(history: History) -> None:
    assert await history.book([Booking(None, a_meter(over=True), (a_row(3),))]) == [True]
    assert await history.book([Booking(None, a_meter(over=True), (a_row(3),))]) == [False]
    assert await all_usage(history) == [a_row(3)]


async def test_ended_instances_are_listed_until_their_last_booking(ports: Ports, history: History) -> None:
    for id in ("i-1", "i-2"):
        await land(ports.records, buried(id))
    assert sorted(await history.unbooked(10)) == ["i-1", "i-2"]
    assert len(await history.unbooked(1)) == 1
    await history.book([first("i-1")])
    assert sorted(await history.unbooked(10)) == ["i-1", "i-2"]
    await history.book([Booking(a_meter(), a_meter(revision=2, over=True), ())])
    assert await history.unbooked(10) == ["i-2"]
    assert set(await ports.records.instances(["i-1"])) == {"i-1"}


async def test_what_stories_tell_is_booked_once(ports: Ports, history: History) -> None:
    records = ports.records
    (ended,) = await records.apply(register("i-1"))
    steps: list[tuple[Callable[..., Any], float, dict[str, Any]]] = [
        (adopt, 40, {}),
        (claim, 100, {"run_id": "run-1"}),
        (commit, 103, {}),
        (release, 400, {}),
        (expire, 450, {}),
        (done, 470, {}),
    ]
    for step, at, more in steps:
        (ended,) = await records.apply(step(ended, at=later(at), **more))
    (lives,) = await records.apply(register("i-2", at=later(10), run_id="run-2"))
    (lives,) = await records.apply(commit(lives, at=later(60)))
    for _ in range(2):
        await book_ended(ports)
        known = await history.meters(["i-1", "i-2"])
        await book(ports, await every_live(ports), known, later(100))
    assert await history.unbooked(10) == []
    assert [one.instance_id for one in await history.open_meters(10)] == ["i-2"]
    assert {(row.owner, row.run_id): row.microseconds / 1e6 for row in await all_usage(history)} == {
        (Owner.BOOT, ""): 40.0,
        (Owner.IDLE, ""): 60.0,
        (Owner.RUN, "run-1"): 300.0,
        (Owner.CLEANING, "run-1"): 70.0,
        (Owner.BOOT, "run-2"): 50.0,
        (Owner.RUN, "run-2"): 40.0,
    }


async def test_usage_is_read_by_hours_in_pages(history: History) -> None:
    hours = [MIDNIGHT + n * HOUR for n in range(-30, 30, 6)]
    await history.book([first(f"i-{n}", a_row(1, hour), a_row(2, hour, Owner.BOOT)) for n, hour in enumerate(hours)])
    page = await history.usage(hours[1], hours[8], 3)
    found = [*page.rows]
    while page.next:
        page = await history.usage(hours[1], hours[8], 3, page.next)
        found += page.rows
    assert [row.hour for row in found] == [hour for hour in hours[1:8] for _ in range(2)]


# ---- retention


@pytest.mark.purging
async def test_what_is_old_is_forgotten_in_portions(history: History) -> None:
    await history.book([first("i-1", a_row(1)), first("i-2", a_row(2, MIDNIGHT + DAY))])
    await history.book([Booking(a_meter(), a_meter(revision=2, over=True), ())])
    for n, ended in enumerate((NOW, NOW, NOW + DAY)):
        await history.note_provision(a_report(f"p-{n}", ended))
        await history.note_actions([a_note(f"i-{n}", ended)])
    while await history.forget(NOW + HOUR, 1):
        pass
    assert [row.microseconds for row in await all_usage(history, until=MIDNIGHT + 2 * DAY)] == [2]
    assert [one.id for one in (await history.reports(NOW, NOW + 2 * DAY, 10)).rows] == ["p-2"]
    assert [one.subject for one in (await history.actions(NOW, NOW + 9 * DAY, 10)).rows] == ["i-2"]
    assert [one.instance_id for one in await history.open_meters(10)] == ["i-2"]
