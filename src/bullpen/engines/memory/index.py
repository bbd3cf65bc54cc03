"""Sparse, sorted indexes over records that follow the truth, at once or some seconds behind it."""

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

from bullpen.model.transition import Record

R = TypeVar("R", bound=Record)
Place = tuple[str, Any]
"""Partition and sort key of a record within one index."""


class Index(Generic[R]):
    """Some records, by partition, in the order of a key and then of their ids; `place` says which and where."""

    def __init__(self, place: Callable[[R], Place | None]) -> None:
        self._place = place
        self._places: dict[str, Place] = {}
        self._records: dict[str, R] = {}
        self._orders: dict[str, list[tuple[Any, str]]] = {}

    def put(self, record: R) -> None:
        place = self._place(record)
        if place is not None and place == self._places.get(record.id):
            self._records[record.id] = record  # most writes leave a record where it is
            return
        self.remove(record.id)
        if place is not None:
            self._places[record.id] = place
            self._records[record.id] = record
            insort(self._orders.setdefault(place[0], []), (place[1], record.id))

    def remove(self, record_id: str) -> None:
        if record_id in self._places:
            partition, key = self._places.pop(record_id)
            del self._records[record_id]
            order = self._orders[partition]
            del order[bisect_left(order, (key, record_id))]

    def walk(self, partition: str = "", after: str = "") -> Iterator[R]:
        """The records of a partition; in an index whose key is the id, those after `after`."""
        order = self._orders.get(partition, [])
        start = bisect_left(order, (after, f"{after}\0")) if after else 0
        return (self._records[record_id] for _, record_id in islice(order, start, None))

    def around(self, partition: str, start: str) -> Iterator[R]:
        """In an index whose key is the id: all of a partition, from `start` on and then from the beginning up to it."""
        order = self._orders.get(partition, [])
        turn = bisect_left(order, (start, start))
        return (self._records[record_id] for _, record_id in (*order[turn:], *order[:turn]))


class Replica(Generic[R]):
    """Several indexes that see each write `lag` seconds after it landed."""

    def __init__(self, lag: float, *indexes: Index[R]) -> None:
        self.lag = lag
        self._indexes = indexes
        self._coming: deque[tuple[float, str, R | None]] = deque()

    def follow(self, record_id: str, record: R | None) -> None:
        """Note a write (None: the record was removed)."""
        self._coming.append((asyncio.get_running_loop().time(), record_id, record))

    def catch_up(self) -> None:
        """Show what landed `lag` seconds ago or earlier. Called before each query."""
        horizon = asyncio.get_running_loop().time() - self.lag
        while self._coming and self._coming[0][0] <= horizon:
            _, record_id, record = self._coming.popleft()
            for index in self._indexes:
                if record is None:
                    index.remove(record_id)
                else:
                    index.put(record)
