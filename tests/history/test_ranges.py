"""Ranges of time as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from bullpen.errors import ConfigError
from bullpen.history.ranges import moment, range_between

NOW = datetime(2026, 11, 19, 6, 30, 15, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("7d", NOW - 7 * DAY),
        ("24h", NOW - DAY),
        ("90m", NOW - timedelta(minutes=90)),
        ("2w", NOW - 14 * DAY),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T08:00Z", datetime(2026, 11, 1, 8, tzinfo=UTC)),
        ("2026-11-01T08:00:00+02:00", datetime(2026, 11, 1, 6, tzinfo=UTC)),
        ("2026-11-01 08:00", datetime(2026, 11, 1, 8, tzinfo=UTC)),
        ("1970-01-01", datetime(2020, 1, 1, tzinfo=UTC)),
        ("999999w", datetime(2020, 1, 1, tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", datetime(2020, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59-14:00", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_length_before_now_or_a_time_in_utc(text: str, at: datetime) -> None:
    assert moment(text, NOW, "since") == at


@pytest.mark.parametrize(
    "text", ["", "7", "d", "7 d", "-7d", "7y", "yesterday", "2026-13-01", "20261101", "٧d", "x" * 900]
)
def test_anything_else_names_the_field_the_value_and_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--since .*must be a number with m, h, d or w") as refused:
        range_between(text, "", NOW, "--")
    assert refused.value.field == "--since"
    assert len(str(refused.value)) < 400


def test_a_range_ends_now_or_before() -> None:
    assert range_between("1d", "", NOW) == (NOW - DAY, NOW)
    assert range_between("2d", "1d", NOW) == (NOW - 2 * DAY, NOW - DAY)
    assert range_between("1d", "2027-01-01", NOW) == (NOW - DAY, NOW)


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"since '1d': must be before until, which is 2026-11-17") as refused:
        range_between("1d", "2d", NOW)
    assert "Exchange the two" in refused.value.remedy


@pytest.mark.parametrize("since", ["2026-11-20", "0d", "2026-11-19T06:30:15Z"])
def test_a_range_that_begins_in_the_future_is_refused(since: str) -> None:
    with pytest.raises(ConfigError, match="must be before now, which is 2026-11-19T06:30:15Z"):
        range_between(since, "", NOW)
