"""Time and chance of the real world."""

import random
import secrets
from datetime import UTC, datetime


class SystemClock:
    """The wall clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class SystemChance:
    """Tokens are the operating system's randomness: rounds fence owners from each other, so they must not be guessable.

    `uniform` spreads waits, and every heartbeat draws one: asking the operating system each time would let go of the
    interpreter, and to have it back from a busy thread takes longer than the rest of the beat.
    """

    def __init__(self) -> None:
        self._source = random.Random()  # seeded by the operating system

    def token(self) -> str:
        return secrets.token_hex(8)

    def uniform(self, low: float, high: float) -> float:
        return self._source.uniform(low, high)
