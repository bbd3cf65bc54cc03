"""Time and chance of a simulated process: both repeat exactly."""

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random  # noqa: TID251  seeded: the same seed draws the same tokens

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)
"""When virtual time starts."""


class LoopClock:
    """The event loop's time as a wall clock. `skew` is by how many seconds this machine's clock is wrong."""

    def __init__(self, beginning: datetime = BEGINNING, skew: float = 0.0) -> None:
        self._beginning = beginning
        self.skew = skew

    def now(self) -> datetime:
        return self._beginning + timedelta(seconds=asyncio.get_running_loop().time() + self.skew)

    def ahead(self) -> float | None:
        """The services know the right time. `now` stays wrong: what must hold with a wrong clock is tested so."""
        return self.skew


class SeededChance:
    """Tokens and jitter from a seed. Processes that must not draw the same tokens need different seeds."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)

    def token(self) -> str:
        return f"{self._random.getrandbits(64):016x}"

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
