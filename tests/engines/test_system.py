"""Time and chance of the real world."""

import re
from datetime import UTC, timedelta

from bullpen.engines.system import SystemChance, SystemClock


def test_now_is_in_utc() -> None:
    assert SystemClock().now().tzinfo is UTC
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_tokens_are_sixteen_hexadecimal_characters_and_never_the_same() -> None:
    chance = SystemChance()
    tokens = {chance.token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(re.fullmatch("[0-9a-f]{16}", token) for token in tokens)


def test_uniform_stays_between_its_bounds() -> None:
    chance = SystemChance()
    assert all(2.0 <= chance.uniform(2.0, 3.0) <= 3.0 for _ in range(1000))
