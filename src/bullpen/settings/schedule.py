"""The `[[classes.NAME.schedule]]` settings: each entry validated, then all of them together."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from bullpen.config import ResourceClass, ScheduleEntry
from bullpen.model import schedule
from bullpen.settings.redaction import shortened
from bullpen.settings.setting import nearest


def impossible_schedules(classes: Mapping[str, ResourceClass], max_instances: int) -> Iterator[str]:
    """Errors in the schedules of classes; none if no class has one."""
    wrong = [
        message
        for name, kind in classes.items()
        for place, entry in enumerate(kind.schedule, 1)
        for message in _impossible_entry(f"classes.{name}.schedule[{place}]", (name, kind), entry, max_instances)
    ]
    yield from wrong
    if wrong:
        return
    for name, kind in classes.items():
        if (found := schedule.first_overlap(kind.entries)) is not None:
            at, first, second = found
            one, other = f"classes.{name}.schedule[{first + 1}]", f"classes.{name}.schedule[{second + 1}]"
            texts = f"({kind.entries[first].text}) must not overlap {other} ({kind.entries[second].text})"
            yield f"{one} {texts}: both hold, for example, on {_moment(at)}"
            return
    yield from _impossible_sum(classes, max_instances)


def largest_sum(classes: Mapping[str, ResourceClass]) -> tuple[int, datetime | None]:
    """The most that all idle targets together amount to, and when; None if no schedule decides it."""
    targets = {name: kind.idle_target for name, kind in classes.items()}
    return schedule.largest_sum(targets, {name: kind.entries for name, kind in classes.items() if kind.schedule})


def _impossible_sum(classes: Mapping[str, ResourceClass], max_instances: int) -> Iterator[str]:
    most = [max([kind.idle_target, *(one.idle_target for one in kind.schedule)]) for kind in classes.values()]
    if sum(most) <= max_instances:  # which spares looking at every moment
        return
    wanted, at = largest_sum(classes)
    if wanted > max_instances and at is not None:
        when = f"on {_moment(at)}"
        limit = f"limits.max-instances ({max_instances})"
        yield f"the sum of the idle targets of all classes {when} ({wanted}) must be at most {limit}"


def _impossible_entry(
    where: str, of: tuple[str, ResourceClass], entry: ScheduleEntry, max_instances: int
) -> Iterator[str]:
    days = schedule.named_days(entry.days)
    for key, value, check in (
        ("days", entry.days, lambda: schedule.days_of(days)),
        ("hours", entry.hours, lambda: schedule.hours_of(entry.hours)),
        ("time-zone", entry.time_zone, lambda: schedule.zone_of(entry.time_zone)),
    ):
        if why := _refusal(check):
            meant = nearest(entry.time_zone, schedule.known_zones()) if key == "time-zone" else ""
            hint = f"; did you mean {meant}?" if meant else ""
            shown = list(value) if isinstance(value, tuple) else value
            yield f"{where}.{key} ({shortened(shown)}) {why}{hint}"
    name, kind = of
    for setting, most in (
        (f"classes.{name}.max-instances", kind.max_instances),
        ("limits.max-instances", max_instances),
    ):
        if (most or setting.startswith("limits.")) and most < entry.idle_target:
            yield f"{where}.idle-target ({entry.idle_target}) must be at most {setting} ({most})"
            break


def _refusal(check: Callable[[], Any]) -> str:
    try:
        check()
    except ValueError as exc:
        return str(exc)
    return ""


def _moment(at: datetime) -> str:
    return f"{at:%a %Y-%m-%d at %H:%M} UTC"
