"""Made once: what GitHub makes for one agent, in its own time, and one agent fetches.

    begin ──▶ GitHub makes it ──▶ at hand ──▶ fetched
                  │                  └──▶ not fetched within a minute: it is given back
                  └──▶ failed: the next fetch begins again

An agent waits a few seconds, GitHub may take longer. So making goes on without the agent, which gets the result when it
asks again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from bullpen.engines.github.single_flight import Flights

UNFETCHED = 60.0  # seconds: an agent that still wants it has asked again by then

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class MadeOnce(Generic[K, T]):
    def __init__(self, flights: Flights) -> None:
        self._flights = flights
        self._making: dict[K, asyncio.Task[tuple[T, float]]] = {}

    def begin(self, key: K, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Have it made, unless it is at work or at hand."""
        if key not in self._making:
            making = self._making[key] = self._flights.run(_timed(make))
            making.add_done_callback(lambda _: self._forget_failed(key, making))

    async def fetch(self, key: K, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The one at work or at hand, else another; each is fetched once. Raise as `make` does."""
        while True:
            self.begin(key, make)
            making = self._making[key]
            made, _ = await asyncio.shield(making)
            if self._making.get(key) is making:
                del self._making[key]
                return made

    def take_unfetched(self) -> T | None:
        """One that no agent has fetched in time, and that is not handed out any more. None: there is no other."""
        time = asyncio.get_running_loop().time()
        for key, making in self._making.items():
            if making.done() and not making.cancelled() and making.exception() is None:
                made, at = making.result()
                if time >= at + UNFETCHED:
                    del self._making[key]
                    return made
        return None

    def _forget_failed(self, key: K, making: "asyncio.Task[tuple[T, float]]") -> None:
        if (making.cancelled() or making.exception()) and self._making.get(key) is making:
            del self._making[key]


async def _timed(make: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
    """With when it was made, by the event loop."""
    made = await make()
    return made, asyncio.get_running_loop().time()
