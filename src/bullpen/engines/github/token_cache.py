"""Tokens that GitHub makes for an hour: one for all callers within its time, and another before it expires.

made ───────────────────────── RENEWED before its end ───────── NEEDED before its end ───
      handed out                  handed out, and another          another is waited for
                                  is made meanwhile
"""

from collections.abc import Callable, Coroutine
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from bullpen.engines.github.single_flight import Flights, SingleFlight
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock

RENEWED = timedelta(minutes=15)  # GitHub may be away for ten minutes before a caller notices
NEEDED = timedelta(minutes=5)  # a caller has this long to use it


@dataclass(frozen=True, slots=True)
class Issued:
    value: str = field(repr=False)
    expires: datetime


class TokenCache:
    def __init__(self, make: Callable[[], Coroutine[Any, Any, Issued]], clock: Clock, flights: Flights) -> None:
        self._make = make
        self._clock = clock
        self._renewal = SingleFlight(self._renewed, flights)
        self._issued: Issued | None = None

    async def value(self) -> str:
        """Raise as the making of one does, if the one at hand is about to end."""
        now = self._clock.now()
        if self._issued is None or now >= self._issued.expires - NEEDED:
            return (await self._renewal.result()).value
        if now >= self._issued.expires - RENEWED:
            self._renewal.begin()
        return self._issued.value

    def drop(self, refused: str) -> None:
        """GitHub does not take this one any more. If it was replaced meanwhile, another caller has noticed before."""
        if self._issued is not None and self._issued.value == refused:
            self._issued = None

    async def _renewed(self) -> Issued:
        self._issued = await self._make()
        return self._issued
