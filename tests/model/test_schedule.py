"""Idle targets by the clock: which entry holds, when that changes, and which entries overlap."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, reset_tzpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.model.schedule import (
    DAYS,
    WEEK,
    WeeklyEntry,
    days_of,
    first_overlap,
    hours_of,
    largest_sum,
    named_days,
    target_at,
    target_now,
    windows_of,
    zone_of,
)

BERLIN, NEW_YORK, KOLKATA = "Europe/Berlin", "America/New_York", "Asia/Kolkata"
SPRING, AUTUMN = (
    datetime(2026, 3, 29, tzinfo=UTC),
    datetime(2026, 10, 25, tzinfo=UTC),
)  # changes in Berlin, at 01:00 UTC


def entry(days: str, hours: str, zone: str = "UTC", target: int = 5) -> WeeklyEntry:
    words = named_days(days)
    return WeeklyEntry(windows_of(words, hours), zone_of(zone), target, f"{days} {hours} {zone}")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def minutes(begin: datetime, count: int) -> Iterator[datetime]:
    return (begin + timedelta(minutes=number) for number in range(count))


def held_minutes(one: WeeklyEntry, begin: datetime, count: int) -> int:
    return sum(one.holds(now) for now in minutes(begin, count))


# ---- days and hours


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("mon", [0]),
        ("weekdays", [0, 1, 2, 3, 4]),
        ("weekend", [5, 6]),
        ("mon-sun", [0, 1, 2, 3, 4, 5, 6]),
        ("fri-mon", [0, 4, 5, 6]),
        ("mon-wed, sat", [0, 1, 2, 5]),
        ("sun, sun", [6]),
    ],
)
def test_days_are_names_groups_and_ranges(days: str, expected: list[int]) -> None:
    assert days_of(named_days(days)) == expected


@pytest.mark.parametrize("days", ["", "monday", "Mon", "mon-", "-mon", "mon-tue-wed", "weekdays-sun", "mon,,tue", "0"])
def test_other_days_are_refused(days: str) -> None:
    with pytest.raises(ValueError, match="must be mon, tue"):
        days_of(named_days(days))


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ("08:00-18:30", (480, 1110)),
        ("22:00-06:00", (1320, 1800)),
        ("00:00-24:00", (0, 1440)),
        ("23:59-00:00", (1439, 1440)),
    ],
)
def test_hours_end_on_the_next_day_if_the_end_is_not_later(hours: str, expected: tuple[int, int]) -> None:
    assert hours_of(hours) == expected


@pytest.mark.parametrize(
    "hours",
    [
        "",
        "8:00-18:00",
        "08:00",
        "08:00-24:30",
        "24:00-06:00",
        "08:60-09:00",
        "08:00 - 18:00",
        "08:00-18:00\n",
        "٠٨:00-18:00",
    ],
)
def test_other_hours_are_refused(hours: str) -> None:
    with pytest.raises(ValueError, match="must be a time from 00:00 to 23:59"):
        hours_of(hours)


def test_empty_hours_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty; a whole day is 00:00-24:00"):
        hours_of("08:00-08:00")


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Europe",
        "Europe/Atlantis",
        "europe/berlin",
        "../etc/passwd",
        "/etc/localtime",
        "zone.tab",
        "a\0",
        "x" * 300,
        "localtime",  # another one on another machine
        "right/Europe/Berlin",
        "posix/Europe/Berlin",
    ],
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="must be the name of an IANA time zone"):
        zone_of(zone)


def test_a_machine_without_time_zones_is_told_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["tzdata", *(name for name in sys.modules if name.startswith("tzdata."))]:
        monkeypatch.setitem(sys.modules, name, None)
    ZoneInfo.clear_cache()
    reset_tzpath([])
    try:
        for zone in ("Europe/Berlin", "UTC"):
            with pytest.raises(ValueError, match="no time zones; install the Python package tzdata"):
                zone_of(zone)
    finally:
        reset_tzpath()


# ---- which entry holds


def test_an_entry_holds_from_its_first_minute_until_before_its_end() -> None:
    one = entry("mon", "08:00-18:30", BERLIN)
    monday = at("2026-11-16T00:00")  # CET: one hour ahead of UTC
    assert not one.holds(monday + timedelta(hours=7) - timedelta(microseconds=1))
    assert one.holds(monday + timedelta(hours=7))
    assert one.holds(monday + timedelta(hours=17, minutes=29, seconds=59))
    assert not one.holds(monday + timedelta(hours=17, minutes=30))
    assert not one.holds(monday + timedelta(days=1, hours=9))


def test_hours_over_midnight_belong_to_the_day_on_which_they_begin_also_over_the_end_of_the_week() -> None:
    one = entry("sun", "22:00-06:00")
    assert one.holds(at("2026-11-22T23:00"))
    assert one.holds(at("2026-11-23T05:59"))  # Monday
    assert not one.holds(at("2026-11-23T06:00"))
    assert not one.holds(at("2026-11-22T05:00"))  # Sunday morning


def test_without_an_entry_that_holds_the_target_is_that_of_the_class() -> None:
    entries = [entry("weekdays", "08:00-18:00", target=7)]
    assert target_at(2, entries, at("2026-11-19T12:00")) == 7
    assert target_at(2, entries, at("2026-11-19T20:00")) == 2
    assert target_at(2, [], at("2026-11-19T12:00")) == 2


# ---- the days on which the clock changes


def test_hours_over_the_skipped_hour_are_an_hour_shorter() -> None:
    assert held_minutes(entry("sat", "22:00-06:00", BERLIN), SPRING - timedelta(hours=12), 36 * 60) == 7 * 60
    assert held_minutes(entry("sun", "00:00-24:00", BERLIN), SPRING - timedelta(hours=12), 48 * 60) == 23 * 60


def test_hours_over_the_repeated_hour_are_an_hour_longer() -> None:
    assert held_minutes(entry("sat", "22:00-06:00", BERLIN), AUTUMN - timedelta(hours=12), 36 * 60) == 9 * 60
    assert held_minutes(entry("sun", "00:00-24:00", BERLIN), AUTUMN - timedelta(hours=12), 48 * 60) == 25 * 60


def test_hours_in_the_skipped_hour_do_not_happen_and_hours_in_the_repeated_one_happen_twice() -> None:
    one = entry("sun", "02:15-02:45", BERLIN)
    assert held_minutes(one, SPRING, 24 * 60) == 0
    assert held_minutes(one, AUTUMN, 24 * 60) == 60
    assert [one.holds(AUTUMN + timedelta(minutes=number)) for number in (14, 15, 44, 45, 74, 75, 104, 105)] == [
        False, True, True, False, False, True, True, False,
    ]  # fmt: skip


def test_hours_that_begin_in_the_skipped_hour_begin_when_the_clock_goes_on() -> None:
    found = target_now(0, [entry("sun", "02:30-05:00", BERLIN)], SPRING)
    assert (found.until, found.then) == (at("2026-03-29T01:00"), 5)  # 03:00 in Berlin


@pytest.mark.parametrize("begin", [SPRING, AUTUMN, at("2026-11-16T00:00"), at("2026-03-08T00:00")])
@pytest.mark.parametrize("hours", ["02:15-02:45", "01:30-03:30", "22:00-02:30", "02:30-22:00", "00:00-24:00"])
@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK])
def test_the_next_change_is_the_next_minute_with_another_target(begin: datetime, hours: str, zone: str) -> None:
    entries = [entry("sun", hours, zone), entry("mon-thu", "09:00-17:00", zone, target=2)]
    begin -= timedelta(hours=30)
    targets = [target_at(1, entries, now) for now in minutes(begin, 9 * 24 * 60)]
    for start in range(0, 4 * 24 * 60, 37):
        now = begin + timedelta(minutes=start, seconds=30)
        found = target_now(1, entries, now)
        step = next(number for number in range(start + 1, len(targets)) if targets[number] != targets[start])
        assert found.target == targets[start]
        assert (found.until, found.then) == (begin + timedelta(minutes=step), targets[step])


def test_an_entry_of_equal_target_is_no_change() -> None:
    entries = [entry("mon", "08:00-12:00", target=3), entry("mon", "12:00-18:00", target=3)]
    found = target_now(0, entries, at("2026-11-16T09:00"))
    assert (found.target, found.until, found.then) == (3, at("2026-11-16T18:00"), 0)


def test_a_target_that_never_changes_has_no_next_change() -> None:
    found = target_now(3, [entry("mon", "08:00-12:00", target=3)], at("2026-11-16T09:00"))
    assert (found.target, found.until) == (3, None)


# ---- overlap


def test_entries_that_touch_do_not_overlap() -> None:
    assert (
        first_overlap([entry("mon", "08:00-12:00"), entry("mon", "12:00-18:00"), entry("tue", "08:00-12:00")]) is None
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("mon", "08:00-12:01"), ("mon", "12:00-18:00")),
        (("sun", "22:00-06:00"), ("mon", "05:59-07:00")),  # over the end of the week
        (("fri", "22:00-06:00"), ("weekend", "00:00-24:00")),  # over midnight
    ],
)
def test_entries_that_hold_together_for_a_minute_overlap(one: tuple[str, str], other: tuple[str, str]) -> None:
    for zone in ("UTC", BERLIN):
        entries = [entry(*one, zone), entry(*other, zone)]
        found = first_overlap(entries)
        assert found is not None
        assert all(each.holds(found[0]) for each in entries)


def test_entries_of_different_zones_overlap_by_what_their_clocks_show_together() -> None:
    berlin = entry("mon", "08:00-12:00", BERLIN)  # 07:00-11:00 UTC, in summer 06:00-10:00
    assert first_overlap([berlin, entry("mon", "11:00-12:00", "UTC")]) is None
    assert first_overlap([berlin, entry("mon", "05:00-06:00", "UTC")]) is None
    only_in_winter = first_overlap([berlin, entry("mon", "10:00-11:00", "UTC")])
    only_in_summer = first_overlap([berlin, entry("mon", "06:00-07:00", "UTC")])
    assert only_in_winter == (at("2026-01-05T10:00"), 0, 1)
    assert only_in_summer == (at("2026-03-30T06:00"), 0, 1)


def test_an_overlap_of_the_weeks_between_two_changes_of_the_clock_is_found() -> None:
    # New York is 6 hours behind Berlin, but 5 for three weeks in spring: then its 08:00 is 13:00 in Berlin.
    entries = [entry("weekdays", "13:00-14:00", BERLIN), entry("weekdays", "08:00-09:00", NEW_YORK)]
    assert first_overlap([entries[0], entry("weekdays", "09:00-10:00", NEW_YORK)]) is None
    found = first_overlap(entries)
    assert found == (at("2026-03-09T12:00"), 0, 1)


def test_an_overlap_of_the_one_hour_between_the_changes_of_two_zones_is_found() -> None:
    # At 03:00 EDT in New York it is still 01:00 CST in Chicago, for one hour in the year.
    entries = [entry("sun", "03:15-03:45", NEW_YORK), entry("sun", "01:15-01:45", "America/Chicago")]
    assert first_overlap(entries) == (at("2026-03-08T07:15"), 0, 1)


ENTRIES = st.builds(
    lambda day, begin, length, zone: entry(
        DAYS[day],
        f"{begin // 60:02}:{begin % 60:02}-{(begin + length) % 1440 // 60:02}:{(begin + length) % 60:02}",
        zone,
    ),
    st.integers(0, 6),
    st.integers(0, 1439).map(lambda minute: minute // 15 * 15),
    st.integers(1, 40).map(lambda quarter: quarter * 15),
    st.sampled_from(["UTC", BERLIN, NEW_YORK, KOLKATA]),
)


@given(ENTRIES, ENTRIES)
def test_two_entries_overlap_exactly_if_some_minute_of_a_year_has_both(one: WeeklyEntry, other: WeeklyEntry) -> None:
    found = first_overlap([one, other])
    if found is not None:
        assert one.holds(found[0])
        assert other.holds(found[0])
        return
    begin = at("2027-01-01T00:00")
    for quarter in range(366 * 24 * 4):
        now = begin + timedelta(minutes=15 * quarter)
        assert not (one.holds(now) and other.holds(now)), now


# ---- sums


def test_the_largest_sum_is_that_of_targets_that_hold_together() -> None:
    schedules = {"small": [entry("mon", "08:00-12:00", target=9)], "large": [entry("mon", "12:00-18:00", target=8)]}
    assert largest_sum({"small": 1, "large": 2, "other": 1}, schedules) == (12, at("2026-01-05T08:00"))
    assert largest_sum({"small": 1, "large": 2}, {}) == (3, None)


def test_a_sum_outside_of_all_hours_counts() -> None:
    most, when = largest_sum({"small": 5}, {"small": [entry("mon", "08:00-12:00", target=0)]})
    assert most == 5
    assert when is not None


def test_a_week_has_no_more_minutes_than_the_windows_of_all_days() -> None:
    windows = windows_of(["mon-sun"], "22:00-06:00")
    assert sum(end - begin for begin, end in windows) == 7 * 8 * 60
    assert all(0 <= begin < end <= WEEK for begin, end in windows)
