"""In which order ready callbacks run when several processes have some."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random  # noqa: TID251  seeded: the same seed gives the same history

from bullpen.sim.process import Callback, Process


class Interleaving:
    """Ready callbacks: in order within a process, drawn by a seed among processes. Used like a deque."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        # Some races need two processes that alternate, others one that runs far ahead. A seed picks how likely it is
        # that the process whose turn it was goes on, so that many seeds see both.
        self._goes_on = self._random.random()
        self._turn: Process | None = None
        self._queues: dict[Process | None, deque[Callback]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, callback: Callback) -> None:
        self._queues.setdefault(callback.process, deque()).append(callback)
        self._length += 1

    def extendleft(self, callbacks: Iterable[Callback]) -> None:
        for callback in callbacks:
            self._queues.setdefault(callback.process, deque()).appendleft(callback)
            self._length += 1

    def popleft(self) -> Callback:
        if len(self._queues) == 1:
            (self._turn,) = self._queues
        elif self._turn not in self._queues or self._random.random() >= self._goes_on:
            self._turn = self._random.choice(list(self._queues))
        queue = self._queues[self._turn]
        callback = queue.popleft()
        if not queue:
            del self._queues[self._turn]
        self._length -= 1
        return callback

    def clear(self) -> None:
        self._queues.clear()
        self._length = 0
