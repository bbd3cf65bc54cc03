"""Time and chance inside the simulation: the ports Clock and Chance, both repeatable."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random  # noqa: TID251  seeded: the same seed gives the same history

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""When virtual time begins. Any moment would do; whole, and in nobody's past."""


class VirtualClock:
    """The wall clock of one machine: the running loop's time counted from an epoch, plus how wrong this clock is."""

    def __init__(self, *, epoch: datetime = EPOCH, skew: timedelta = timedelta(0)) -> None:
        self.epoch = epoch
        self.skew = skew
        """May be changed at any time, as when a clock is set."""

    def now(self) -> datetime:
        return self.epoch + timedelta(seconds=asyncio.get_running_loop().time()) + self.skew


class SeededChance:
    """Randomness that repeats with its seed. Whoever must not draw the same tokens needs a seed of their own."""

    def __init__(self, seed: int | str = 0) -> None:
        self._random = Random(seed)

    def token(self) -> str:
        return f"{self._random.getrandbits(64):016x}"

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
