"""How long a provision may wait, as people write it."""

import pytest

from bullpen.model.times import parse_wait


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1h", 3600), ("6h", 21600)])
def test_a_number_with_its_unit_is_read(text: str, seconds: int) -> None:
    assert parse_wait(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "0m", "7h", "361m", "21601", "1d", "1.5h", "-5m", " 5m", "5 m", "m", "１m", "9" * 30]
)
def test_a_text_that_is_not_a_time_to_wait_is_refused(text: str) -> None:
    assert parse_wait(text) is None
