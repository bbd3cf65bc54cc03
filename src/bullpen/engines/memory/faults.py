"""The network between one process and the services, and everything that can go wrong on it.

A call travels there, is done in one go, and its answer travels back; the caller may be killed on both ways. So a
request may be lost before it lands, or land and lose its answer, and the caller cannot distinguish them.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from enum import StrEnum
from functools import partial, wraps
from random import Random  # noqa: TID251  seeded: the same seed gives the same faults
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from bullpen.errors import BullpenError, Throttled, Unavailable
from bullpen.lazy_dataclass import dataclass

P = ParamSpec("P")
T = TypeVar("T")


class Failure(StrEnum):
    """How one call fails."""

    LOST_REQUEST = "the request was lost"
    LOST_ANSWER = "the answer was lost"  # what was asked has happened
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True)
class Rates:
    """How often each thing goes wrong, from 0.0 to 1.0, and how slow a call is."""

    latency: tuple[float, float] = (0.0, 0.0)  # seconds of each way, from and to
    lost_request: float = 0.0
    lost_answer: float = 0.0
    throttled: float = 0.0
    false_empty: float = 0.0  # a take that finds nothing though there is something
    duplicate: float = 0.0  # a ticket that arrives twice
    lost_ticket: float = 0.0  # a ticket that never arrives
    disorder: float = 0.0  # a take in an order of its own
    short_fleet: float = 0.0  # fewer machines than asked, though the request succeeded
    refused_fleet: float = 0.0  # no machine and an error
    slow_end: float = 0.0  # a machine that ends, but not so surely that the answer says so
    deaf: float = 0.0  # a wait that no wake-up reaches


CALM = Rates()
RETRY_AFTER = 0.2
"""Seconds that a throttled caller is asked to wait."""


class Faults:
    """One process's way to the services. It counts the requests by kind: budgets are held against `requests`."""

    def __init__(self, seed: int = 0, rates: Rates = CALM) -> None:
        self.rates = rates
        self.requests: Counter[str] = Counter()
        self.random = Random(seed)
        self._scripted: dict[str, deque[Failure]] = {}

    def fail_next(self, kind: str, *failures: Failure) -> None:
        """Let the next calls of this kind (`"records.apply"`) fail so, one failure each."""
        self._scripted.setdefault(kind, deque()).extend(failures)

    def happens(self, rate: float) -> bool:
        return rate > 0.0 and self.random.random() < rate

    async def call(self, kind: str, work: Callable[[], T]) -> T:
        """One request. `work` is done without an await inside: no other task sees half of it."""
        self.requests[kind] += 1
        failure = self._failure(kind)
        await self._travel()
        if failure is Failure.LOST_REQUEST:
            raise Unavailable(f"{kind}: {failure}")
        if failure is Failure.THROTTLED:
            raise Throttled(f"{kind}: {failure}", retry_after=RETRY_AFTER)
        answer: T | BullpenError
        try:
            answer = work()
        except BullpenError as exc:
            answer = exc  # a "no" travels back like any answer, and is lost like any
        await self._travel()
        if failure is Failure.LOST_ANSWER:
            raise Unavailable(f"{kind}: {failure}")
        if isinstance(answer, BullpenError):
            raise answer
        return answer

    async def answer(self, kind: str, answer: T) -> T:
        """What a service answers to a request that it has held until now. It may be lost on its way."""
        await self._travel()
        if self.happens(self.rates.lost_answer):
            raise Unavailable(f"{kind}: {Failure.LOST_ANSWER}")
        return answer

    def _failure(self, kind: str) -> Failure | None:
        if scripted := self._scripted.get(kind):
            return scripted.popleft()
        for failure, rate in (
            (Failure.LOST_REQUEST, self.rates.lost_request),
            (Failure.LOST_ANSWER, self.rates.lost_answer),
            (Failure.THROTTLED, self.rates.throttled),
        ):
            if self.happens(rate):
                return failure
        return None

    async def _travel(self) -> None:
        low, high = self.rates.latency
        await asyncio.sleep(self.random.uniform(low, high) if high > 0.0 else 0)


class FaultyAccess(Protocol):
    """One process's access to a service."""

    _faults: Faults


C = TypeVar("C", bound=FaultyAccess)


def request(
    kind: str,
) -> Callable[[Callable[Concatenate[C, P], T]], Callable[Concatenate[C, P], Coroutine[Any, Any, T]]]:
    """Makes a method one request of this kind: its body is what the service does, in one go."""

    def decorate(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
        @wraps(method)
        async def call(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self._faults.call(kind, partial(method, self, *args, **kwargs))

        return call

    return decorate
