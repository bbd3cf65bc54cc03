"""Idle targets by the clock: entries with days, hours and a time zone, and which of them holds at a moment.

    hours 22:00-06:00, days mon        Mon 22:00 ──────▶ Tue 06:00    hours belong to the day on which they begin

An entry holds while the wall clock of its time zone shows a time in its hours. So a change of the clock needs no rule
of its own: hours that the clock skips do not happen, and hours that it shows twice hold twice. A day has 23 or 25.

Whether entries overlap is decided for every moment of `HORIZON`. The offsets of the zones to UTC are constant for a
period, in which all entries repeat each week: it suffices to look at the first week of each different period.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from bullpen.lazy_dataclass import dataclass
from bullpen.model.times import later

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
GROUPS = {"weekdays": range(5), "weekend": range(5, 7)}
DAYS_ALLOWED = "mon, tue, wed, thu, fri, sat, sun, weekdays, weekend or a range such as mon-thu"
HOURS_ALLOWED = "a time from 00:00 to 23:59, a dash and a later one, such as 08:00-18:30, or 22:00-06:00 over midnight"
ZONE_ALLOWED = "the name of an IANA time zone, such as Europe/Berlin or UTC"
OF_MACHINE = ("localtime", "posixrules", "Factory", "posix", "right")
"""Files beside the zones: a machine's own time, which differs among servers, and variants with leap seconds."""
NO_ZONES = "cannot be looked up: this machine has no time zones; install the Python package tzdata"
DAY = 24 * 60  # minutes
WEEK = 7 * DAY
HORIZON = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2046, 1, 1, tzinfo=UTC))
"""Rules of time zones repeat within a few years, but for some that follow the moon."""
AHEAD = 15  # days to look for the next change: a clock that skips hours may skip those of one week
MINUTE = timedelta(minutes=1)

Window = tuple[int, int]
"""Minutes of the week, from Monday 00:00: the first one, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class WeeklyEntry:
    """The idle target of some hours of the week. `text` is how people read it."""

    windows: tuple[Window, ...]
    zone: tzinfo
    target: int
    text: str

    def holds(self, now: datetime) -> bool:
        return self.holds_at(_minute_of_week(now.astimezone(self.zone)))

    def holds_at(self, minute: int) -> bool:
        """Whether it holds in this minute of a week, by the clock of its zone."""
        return any(begin <= minute < end for begin, end in self.windows)


@dataclass(frozen=True, slots=True)
class TargetNow:
    """The idle target at a moment, and the entry that holds, as text; empty if none does. `until` is when the target
    changes next, to `then`; None if it does not."""

    target: int
    entry: str = ""
    until: datetime | None = None
    then: int = 0


@dataclass(frozen=True, slots=True)
class HeldEntries:
    """Entries that hold together at `at`, by class, as positions in its schedule."""

    at: datetime
    entries: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def named_days(days: str | Sequence[str]) -> tuple[str, ...]:
    """The words of a text with commas, or of a list."""
    return tuple(word.strip() for word in (days.split(",") if isinstance(days, str) else days))


def windows_of(days: Sequence[str], hours: str) -> tuple[Window, ...]:
    """Raise ValueError with what is allowed."""
    begin, end = hours_of(hours)
    found = []
    for day in days_of(days):
        first, last = day * DAY + begin, day * DAY + end
        found += [(first, last)] if last <= WEEK else [(first, WEEK), (0, last - WEEK)]
    return tuple(found)


def days_of(days: Sequence[str]) -> list[int]:
    """Days of the week, from 0 for Monday. Raise ValueError with what is allowed."""
    if not days:
        raise ValueError(f"must be {DAYS_ALLOWED}")
    return sorted({day for word in days for day in _days_of_word(word)})


def _days_of_word(word: str) -> Sequence[int]:
    if (group := GROUPS.get(word)) is not None:
        return group
    first, dash, last = word.partition("-")
    if first not in DAYS or (dash and last not in DAYS):
        raise ValueError(f"must be {DAYS_ALLOWED}")
    begin = DAYS.index(first)
    length = (DAYS.index(last) - begin) % 7 if dash else 0
    return [(begin + more) % 7 for more in range(length + 1)]


def hours_of(text: str) -> tuple[int, int]:
    """Begin and end in minutes after midnight, the end possibly on the next day.

    Raise ValueError with what is allowed.
    """
    found = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)", text, re.ASCII)
    if found is None:
        raise ValueError(f"must be {HOURS_ALLOWED}")
    begin = int(found[1]) * 60 + int(found[2])
    end = int(found[3]) * 60 + int(found[4]) if found[3] else DAY
    if begin == end:
        raise ValueError("must not be empty; a whole day is 00:00-24:00")
    return begin, end if end > begin else end + DAY


def zone_of(name: str) -> tzinfo:
    """Raise ValueError with what is allowed."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # only a pool with a schedule needs time zones

    try:
        if name.partition("/")[0] not in OF_MACHINE:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if not known_zones():
            raise ValueError(NO_ZONES) from None
    raise ValueError(f"must be {ZONE_ALLOWED}")


def known_zones() -> list[str]:
    from zoneinfo import available_timezones

    return sorted(available_timezones())


def target_now(default: int, entries: Sequence[WeeklyEntry], now: datetime) -> TargetNow:
    """The target with its reason and its next change. `default` is the target outside of all entries."""
    if not entries:
        return TargetNow(default)
    target, entry = _at(default, entries, now)
    for at in _changes(entries, now):
        then, _ = _at(default, entries, at)
        if then != target:
            return TargetNow(target, entry, at, then)
    return TargetNow(target, entry)


def target_at(default: int, entries: Sequence[WeeklyEntry], now: datetime) -> int:
    return _at(default, entries, now)[0] if entries else default


def _at(default: int, entries: Sequence[WeeklyEntry], now: datetime) -> tuple[int, str]:
    found = next((one for one in entries if one.holds(now)), None)
    return (found.target, found.text) if found else (default, "")


def _changes(entries: Sequence[WeeklyEntry], now: datetime) -> list[datetime]:
    """The moments after `now` at which an entry may begin or end to hold."""
    found: set[datetime] = set()
    for zone in dict.fromkeys(one.zone for one in entries):
        midnight = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        monday = midnight - timedelta(days=midnight.weekday())
        edges = {edge for one in entries if one.zone is zone for window in one.windows for edge in window}
        for week in range(AHEAD // 7 + 2):
            for edge in edges:
                local = monday + timedelta(weeks=week, minutes=edge)
                # A time that the clock shows twice, or skips, is two moments.
                found |= {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        found.update(_transitions(zone, now, now + timedelta(days=AHEAD)))
    return sorted(at for at in found if at > now)


def _minute_of_week(local: datetime) -> int:
    return local.weekday() * DAY + local.hour * 60 + local.minute


# ---- all moments of the horizon


def first_overlap(entries: Sequence[WeeklyEntry]) -> tuple[datetime, int, int] | None:
    """The first moment at which two entries of one class hold, and their positions."""
    found = [one for one in holdings({"": entries}) if len(one.entries.get("", ())) > 1]
    first = min(found, key=lambda one: one.at, default=None)
    return None if first is None else (first.at, first.entries[""][0], first.entries[""][1])


def largest_sum(
    defaults: Mapping[str, int], schedules: Mapping[str, Sequence[WeeklyEntry]]
) -> tuple[int, datetime | None]:
    """The largest sum of the targets of all classes, and when it is first reached; None if it does not depend on the
    clock. `defaults` has the target of each class outside of its entries."""
    if not any(schedules.values()):
        return sum(defaults.values()), None

    def total(one: HeldEntries) -> int:
        targets = dict(defaults)
        for name, held in one.entries.items():
            targets[name] = schedules[name][held[0]].target
        return sum(targets.values())

    found = [(total(one), one.at) for one in holdings(schedules)]
    most = max(number for number, _ in found)
    return most, min(at for number, at in found if number == most)


def holdings(schedules: Mapping[str, Sequence[WeeklyEntry]]) -> Iterator[HeldEntries]:
    """Every combination of entries that holds at some moment of the horizon, at least once."""
    zones = list(dict.fromkeys(one.zone for entries in schedules.values() for one in entries))
    for at, length, offsets in _periods(zones):
        offset_of = dict(zip(zones, offsets, strict=True))
        begin = _minute_of_week(at)
        moments = {0}  # minutes after the begin of the period
        for entries in schedules.values():
            for one in entries:
                moments |= {(first - offset_of[one.zone] - begin) % WEEK for first, _ in one.windows}
                moments |= {(last - offset_of[one.zone] - begin) % WEEK for _, last in one.windows}
        for moment in sorted(one for one in moments if one < length):
            held = {
                name: tuple(
                    place
                    for place, one in enumerate(entries)
                    if one.holds_at((begin + moment + offset_of[one.zone]) % WEEK)
                )
                for name, entries in schedules.items()
            }
            yield HeldEntries(later(at, moment * 60), {name: places for name, places in held.items() if places})


def _periods(zones: Sequence[tzinfo]) -> Iterator[tuple[datetime, int, tuple[int, ...]]]:
    """Begin, minutes and offsets of the periods in which no zone changes its offset. Of periods of a week or more with
    equal offsets, the first one. What a single clock shows in a week does not depend on its offset."""
    begin, end = HORIZON
    if len(zones) < 2:
        yield begin, WEEK, tuple(_offset(zone, begin) for zone in zones)
        return
    seen: set[tuple[int, ...]] = set()
    changes = sorted({at for zone in zones for at in _transitions_of_horizon(zone)})
    for first, last in zip([begin, *changes], [*changes, end], strict=True):
        offsets = tuple(_offset(zone, first) for zone in zones)
        length = (last - first) // MINUTE
        if length >= WEEK:
            if offsets in seen:
                continue
            seen.add(offsets)
        yield first, min(length, WEEK), offsets


@lru_cache(maxsize=64)
def _transitions_of_horizon(zone: tzinfo) -> tuple[datetime, ...]:
    """Of a zone that several classes use, once: every command validates the settings."""
    return tuple(_transitions(zone, *HORIZON))


def _transitions(zone: tzinfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """When the zone changes its offset, to the minute. Two changes within a day that cancel out are not found."""
    day, last = begin.replace(second=0, microsecond=0), _offset(zone, begin)
    while day < end:
        following = min(day + timedelta(days=1), end)
        offset = _offset(zone, following)
        if offset != last:
            low, high = day, following
            while high - low > MINUTE:
                middle = low + (high - low) // (2 * MINUTE) * MINUTE
                low, high = (middle, high) if _offset(zone, middle) == last else (low, middle)
            yield high
        day, last = following, offset


def _offset(zone: tzinfo, at: datetime) -> int:
    """Minutes that its clock is ahead of UTC."""
    return (at.astimezone(zone).utcoffset() or timedelta()) // MINUTE
