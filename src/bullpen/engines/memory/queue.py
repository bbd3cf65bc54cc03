"""Pool queues in memory."""

import asyncio
import heapq
from collections import deque
from collections.abc import Sequence

from bullpen.engines.memory.faults import Faults


class Messages:
    """The messages of one queue: those to be had, and those hidden until their time."""

    def __init__(self) -> None:
        self._ready: deque[str] = deque()
        self._hidden: list[tuple[float, int, str]] = []
        self._sent = 0

    def __len__(self) -> int:
        return len(self._ready) + len(self._hidden)

    def bodies(self) -> list[str]:
        """All messages, hidden ones included."""
        return [*self._ready, *(body for _, _, body in self._hidden)]

    def add(self, body: str, visible_at: float) -> None:
        self._sent += 1  # those that appear at the same moment do so in the order in which they were sent
        heapq.heappush(self._hidden, (visible_at, self._sent, body))

    def ready(self, now: float) -> deque[str]:
        while self._hidden and self._hidden[0][0] <= now:
            self._ready.append(heapq.heappop(self._hidden)[2])
        return self._ready


class MemoryQueue:
    """One process's access to the queues, which are shared: a queue per resource class."""

    def __init__(self, queues: dict[str, Messages], faults: Faults) -> None:
        self._queues = queues
        self._faults = faults

    async def take(self, resource_class: str, limit: int) -> list[str]:
        return await self._faults.call("queue.take", lambda: self._take(resource_class, limit))

    async def send(self, resource_class: str, bodies: Sequence[str], delay: float = 0.0) -> None:
        await self._faults.call("queue.send", lambda: self._send(resource_class, bodies, delay))

    async def count(self, resource_class: str) -> int:
        return await self._faults.call("queue.count", lambda: len(self._queues.get(resource_class, ())))

    async def names(self) -> list[str]:
        return await self._faults.call("queue.names", lambda: sorted(self._queues))

    async def ensure(self, resource_class: str) -> None:
        await self._faults.call("queue.ensure", lambda: self._queues.setdefault(resource_class, Messages()))

    async def retire(self, resource_class: str) -> None:
        await self._faults.call("queue.retire", lambda: self._queues.pop(resource_class, None))

    def _take(self, resource_class: str, limit: int) -> list[str]:
        rates = self._faults.rates
        if resource_class not in self._queues or self._faults.happens(rates.false_empty):
            return []
        ready = self._queues[resource_class].ready(asyncio.get_running_loop().time())
        if self._faults.happens(rates.disorder):
            self._faults.random.shuffle(ready)
        return [ready.popleft() for _ in range(min(limit, len(ready)))]

    def _send(self, resource_class: str, bodies: Sequence[str], delay: float) -> None:
        rates = self._faults.rates
        messages = self._queues.setdefault(resource_class, Messages())
        visible_at = asyncio.get_running_loop().time() + delay
        for body in bodies:
            if self._faults.happens(rates.lost_ticket):
                continue
            messages.add(body, visible_at)
            if self._faults.happens(rates.duplicate):
                messages.add(body, visible_at)
