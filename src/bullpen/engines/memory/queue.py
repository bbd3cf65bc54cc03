"""Pool queues in memory."""

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Sequence

from bullpen.engines.memory.clock import LoopClock
from bullpen.engines.memory.faults import Faults, request
from bullpen.ports import Message


class Messages:
    """The messages of one queue: the visible ones, and those hidden until their time. Times are the loop's."""

    def __init__(self) -> None:
        self._ready: deque[tuple[float, str]] = deque()  # until when, and what
        self._hidden: list[tuple[float, int, float, str]] = []
        self._sent = 0

    def bodies(self) -> list[str]:
        """All messages, hidden and expired ones included."""
        return [*(body for _, body in self._ready), *(body for _, _, _, body in self._hidden)]

    def count(self, now: float) -> int:
        lasting = [*(until for until, _ in self._ready), *(until for _, _, until, _ in self._hidden)]
        return sum(until > now for until in lasting)

    def add(self, body: str, visible_at: float, until: float) -> None:
        self._sent += 1  # those that appear at the same moment do so in the order in which they were sent
        heapq.heappush(self._hidden, (visible_at, self._sent, until, body))

    def ready(self, now: float) -> deque[tuple[float, str]]:
        """The visible ones, some of them expired perhaps."""
        while self._hidden and self._hidden[0][0] <= now:
            _, _, until, body = heapq.heappop(self._hidden)
            self._ready.append((until, body))
        return self._ready

    def take(self, limit: int, now: float) -> list[str]:
        """Expired ones that lie in the way are removed."""
        ready, taken = self.ready(now), list[str]()
        while ready and len(taken) < limit:
            until, body = ready.popleft()
            if until > now:
                taken.append(body)
        return taken


class MemoryQueue:
    """One process's access to the queues, which are shared: a queue per resource class."""

    counts_expired = False

    def __init__(self, queues: dict[str, Messages], faults: Faults) -> None:
        self._queues = queues
        self._clock = LoopClock()  # the service's own: no process's wrong clock makes a message last longer
        self._faults = faults

    @request("queue.take")
    def take(self, resource_class: str, limit: int) -> list[str]:
        rates = self._faults.rates
        if resource_class not in self._queues or self._faults.happens(rates.false_empty):
            return []
        now = asyncio.get_running_loop().time()
        messages = self._queues[resource_class]
        if self._faults.happens(rates.disorder):
            self._faults.random.shuffle(messages.ready(now))
        return messages.take(limit, now)

    @request("queue.send")
    def send(self, resource_class: str, messages: Sequence[Message], delay: float = 0.0) -> None:
        rates = self._faults.rates
        queue = self._queues.setdefault(resource_class, Messages())
        now = asyncio.get_running_loop().time()
        for one in messages:
            lasts = (one.expires - self._clock.now()).total_seconds() if one.expires else math.inf
            if self._faults.happens(rates.lost_ticket):
                continue
            queue.add(one.body, now + delay, now + lasts)
            if self._faults.happens(rates.duplicate):
                queue.add(one.body, now + delay, now + lasts)

    @request("queue.count")
    def count(self, resource_class: str) -> int:
        messages = self._queues.get(resource_class)
        return messages.count(asyncio.get_running_loop().time()) if messages else 0

    @request("queue.names")
    def names(self) -> list[str]:
        return sorted(self._queues)

    @request("queue.ensure")
    def ensure(self, resource_class: str) -> None:
        self._queues.setdefault(resource_class, Messages())

    @request("queue.retire")
    def retire(self, resource_class: str) -> None:
        self._queues.pop(resource_class, None)
