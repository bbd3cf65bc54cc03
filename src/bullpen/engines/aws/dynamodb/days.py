"""Partitions by day or month of what happened, and walks over them in order of time. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

DAY, MONTH = "%Y-%m-%d", "%Y-%m"


def partition(at: datetime, form: str = DAY) -> str:
    """The part of time that a moment is in."""
    return at.astimezone(UTC).strftime(form)


def partitions(since: datetime, until: datetime, form: str = DAY) -> Iterator[str]:
    """Every part of a range of time, the oldest first; the end of the range is not in it."""
    last = ""
    day = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    while day < until:
        if (name := partition(day, form)) != last:
            yield name
        last, day = name, day + timedelta(days=1)
