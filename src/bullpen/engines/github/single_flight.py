"""Single flight: one request to GitHub for all callers that wait for its result.

A caller that is cancelled does not cancel the request: the other callers, and the next one, still get its result. A
failure is remembered for some seconds and raised to every caller: while GitHub does not answer, callers do not queue
up.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from bullpen.errors import BullpenError

QUIET = 3.0  # seconds for which a failure is remembered: shorter than a caller's patience, longer than its haste

T = TypeVar("T")


class Flights:
    """The requests in flight. None outlives `aclose`."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    async def aclose(self) -> None:
        ended = list(self._tasks)
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.remove(task)
        if not task.cancelled():
            task.exception()  # raised to those that waited; the next caller gets it as well


class SingleFlight(Generic[T]):
    """One result from GitHub: at most one request for it at a time."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], flights: Flights) -> None:
        self._make = make
        self._flights = flights
        self._task: asyncio.Task[T] | None = None
        self._failure: BullpenError | None = None
        self._failed_at = 0.0

    async def result(self) -> T:
        """Of the request in flight, or of a new one. Raise as it does, or as the last did some moments ago."""
        if (failure := self._recent_failure()) is not None:
            raise failure
        return await asyncio.shield(self._at_work())

    def begin(self) -> None:
        """Start a request, and do not wait for it."""
        if self._recent_failure() is None:
            self._at_work()

    def _at_work(self) -> "asyncio.Task[T]":
        if self._task is None or self._task.done():
            self._task = self._flights.run(self._tried())
        return self._task

    def _recent_failure(self) -> BullpenError | None:
        is_recent = asyncio.get_running_loop().time() < self._failed_at + QUIET
        return self._failure if is_recent else None

    async def _tried(self) -> T:
        try:
            return await self._make()
        except BullpenError as exc:
            self._failure, self._failed_at = exc, asyncio.get_running_loop().time()
            raise
