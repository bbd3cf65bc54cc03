"""Ranges of time as people write them: 7d, 24h, 90m, 2w, or a date or time in UTC. Pure."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from bullpen.errors import ConfigError
from bullpen.settings.redaction import shortened

UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
ALLOWED = "a number with m, h, d or w, such as 7d, or a date or time in UTC, such as 2026-11-01 or 2026-11-01T08:00Z"
OLDEST = datetime(2020, 1, 1, tzinfo=UTC)  # before the first machine of any pool


def moment(text: str, now: datetime, field: str) -> datetime:
    """A time so long before now, or the time itself. Raise ConfigError for what is neither."""
    at: datetime | None = None
    if found := re.fullmatch(r"([0-9]{1,6})([mhdw])", text, re.ASCII):
        try:
            at = now - int(found[1]) * UNITS[found[2]]
        except OverflowError:
            at = OLDEST
    elif len(text) >= len("2026-11-01"):
        with suppress(ValueError):
            at = _in_utc(datetime.fromisoformat(text))
    if at is None:
        raise ConfigError(
            f"{field} {shortened(text)}: must be {ALLOWED}", field=field, value=text[:80], allowed=ALLOWED
        )
    return max(at, OLDEST)


def _in_utc(at: datetime) -> datetime:
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:  # at either end of the calendar, where hours do not matter
        return at.replace(tzinfo=UTC)


def range_between(since: str, until: str, now: datetime, prefix: str = "") -> tuple[datetime, datetime]:
    """A range that ends now unless `until` says otherwise. Raise ConfigError for one that ends before it begins, or
    begins after now. `prefix` is what the names of the two fields begin with: -- on the command line."""
    first = moment(since, now, f"{prefix}since")
    last = moment(until, now, f"{prefix}until") if until else now
    if first >= now:
        raise ConfigError(
            f"{prefix}since {shortened(since)}: must be before now, which is {now:%Y-%m-%dT%H:%M:%SZ}",
            remedy="Name a time that has passed, or a length such as 7d.",
            field=f"{prefix}since",
            value=since[:80],
            allowed=ALLOWED,
        )
    if first >= last:
        raise ConfigError(
            f"{prefix}since {shortened(since)}: must be before {prefix}until, which is {last:%Y-%m-%dT%H:%M:%SZ}",
            remedy=f"Exchange the two, or leave {prefix}until out for a range that ends now.",
            field=f"{prefix}since",
            value=since[:80],
            allowed=ALLOWED,
        )
    return first, min(last, now)
