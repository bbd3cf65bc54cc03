"""Time and chance of the real world."""

import secrets
from datetime import UTC, datetime


class SystemClock:
    """The wall clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class SystemChance:
    """The operating system's randomness: rounds fence owners from each other, so nobody may guess one."""

    def __init__(self) -> None:
        self._source = secrets.SystemRandom()

    def token(self) -> str:
        return secrets.token_hex(8)

    def uniform(self, low: float, high: float) -> float:
        return self._source.uniform(low, high)
