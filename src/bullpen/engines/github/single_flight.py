"""What is asked of GitHub once for everybody who waits for it.

Whoever gives up waiting takes nothing from the others, nor from whoever asks next: an attempt goes on without them. And
its failure is everybody's answer for a while: where GitHub is mute, nobody stands in line only to hear the same.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from bullpen.errors import BullpenError

QUIET = 3.0  # seconds for which a failure is remembered: shorter than a caller's patience, longer than its haste

T = TypeVar("T")


class Flights:
    """All that are at work. None outlives `aclose`."""

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
            task.exception()  # raised to whoever waited; if nobody did, the next one to ask hears of it


class SingleFlight(Generic[T]):
    """One thing to be had of GitHub: at most one attempt at it at a time."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], flights: Flights) -> None:
        self._make = make
        self._flights = flights
        self._task: asyncio.Task[T] | None = None
        self._failure: BullpenError | None = None
        self._failed_at = 0.0

    async def result(self) -> T:
        """Of the attempt at work, or of one that is begun. Raise as it does, or as the last did some moments ago."""
        if (failure := self._recent_failure()) is not None:
            raise failure
        return await asyncio.shield(self._at_work())

    def begin(self) -> None:
        """Have it tried, and wait for nothing."""
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
