"""Times: a moment some seconds later, a moment as a number, and a length of time as people write it (90, 90s, 2h)."""

import re
from datetime import UTC, datetime, timedelta

from bullpen.model.limits import WAIT_SECONDS

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
WAITS = "a number with s, m or h, such as 90s, 10m or 1h, from 1 second to 6 hours"


def parse_wait(text: str) -> float | None:
    """Seconds; None for what is no length of time that a provision may wait."""
    found = re.fullmatch(r"([0-9]{1,6})([smh]?)", text)
    seconds = int(found[1]) * UNITS[found[2]] if found else 0
    return float(seconds) if 1 <= seconds <= WAIT_SECONDS else None


def later(at: datetime, seconds: float) -> datetime:
    return at + timedelta(seconds=seconds)


def to_micros(at: datetime) -> int:
    """Whole microseconds since 1970, UTC."""
    return (at - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
