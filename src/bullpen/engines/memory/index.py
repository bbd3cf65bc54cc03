"""Sparse, sorted indexes over records that follow the truth, at once or some seconds behind it."""

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import Any, Generic, TypeVar

from bullpen.model.instance import LIVE, Instance
from bullpen.model.job import FINISHED, QUEUED, RUNNING, Job
from bullpen.model.pause import Pause
from bullpen.model.provision import OPEN, Provision
from bullpen.model.transition import Record
from bullpen.model.worker import ACTIVE, CLEANED_UP, Worker

R = TypeVar("R", bound=Record)
Place = tuple[str, Any]
"""Partition and sort key of a record within one index."""


class Index(Generic[R]):
    """Some records, by partition, in the order of a key and then of their ids; `place` says which and where."""

    def __init__(self, place: Callable[[R], Place | None], catch_up: Callable[[], None]) -> None:
        self._place = place
        self._catch_up = catch_up
        self._places: dict[str, Place] = {}
        self._records: dict[str, R] = {}
        self._orders: dict[str, list[tuple[Any, str]]] = {}

    def show(self, record_id: str, record: R | None) -> None:
        """Take in a record as it is now; None: it was removed."""
        place = None if record is None else self._place(record)
        if place != self._places.get(record_id):  # most writes leave a record where it is
            self._hide(record_id)
            if place is not None:
                self._places[record_id] = place
                insort(self._orders.setdefault(place[0], []), (place[1], record_id))
        if record is not None and place is not None:
            self._records[record_id] = record

    def walk(self, partition: str = "", after: str = "") -> Iterator[R]:
        """The records of a partition; in an index whose key is the id, those after `after`."""
        self._catch_up()
        order = self._orders.get(partition, [])
        start = bisect_left(order, (after, f"{after}\0")) if after else 0
        return (self._records[record_id] for _, record_id in islice(order, start, None))

    def page(self, limit: int, partition: str = "", after: str = "") -> list[R]:
        return list(islice(self.walk(partition, after), limit))

    def up_to(self, key: Any, partition: str = "") -> Iterator[R]:
        """The records of a partition whose key is not greater."""
        self._catch_up()
        order = takewhile(lambda entry: entry[0] <= key, self._orders.get(partition, []))
        return (self._records[record_id] for _, record_id in order)

    def around(self, partition: str, start: str) -> Iterator[R]:
        """In an index whose key is the id: all of a partition, from `start` on and then from the beginning up to it."""
        self._catch_up()
        order = self._orders.get(partition, [])
        turn = bisect_left(order, (start, start))
        return (self._records[record_id] for _, record_id in (*order[turn:], *order[:turn]))

    def _hide(self, record_id: str) -> None:
        if record_id in self._places:
            partition, key = self._places.pop(record_id)
            del self._records[record_id]
            order = self._orders[partition]
            del order[bisect_left(order, (key, record_id))]


class Indexes(Generic[R]):
    """The indexes of one kind of record. All but those made `current` see each write `lag` seconds after it landed."""

    def __init__(self, lag: float) -> None:
        self._lag = lag
        self._lagging: list[Index[R]] = []
        self._current: list[Index[R]] = []
        self._coming: deque[tuple[float, str, R | None]] = deque()

    def add(self, place: Callable[[R], Place | None], *, current: bool = False) -> Index[R]:
        index = Index(place, self._catch_up)
        (self._current if current else self._lagging).append(index)
        return index

    def follow(self, record_id: str, record: R | None) -> None:
        """Note a write (None: the record was removed)."""
        self._coming.append((asyncio.get_running_loop().time(), record_id, record))
        for index in self._current:
            index.show(record_id, record)

    def _catch_up(self) -> None:
        """Show what landed `lag` seconds ago or earlier."""
        horizon = asyncio.get_running_loop().time() - self._lag
        while self._coming and self._coming[0][0] <= horizon:
            _, record_id, record = self._coming.popleft()
            for index in self._lagging:
                index.show(record_id, record)


class InstanceIndexes(Indexes[Instance]):
    def __init__(self, lag: float) -> None:
        super().__init__(lag)
        self.of_run = self.add(lambda i: (i.run_id, i.id) if i.run_id and i.state in LIVE else None)
        self.serving = self.add(lambda i: ("", i.run_id) if i.run_id and i.state in LIVE else None)
        self.claimable = self.add(lambda i: (i.resource_class, i.id) if i.is_claimable else None)
        self.pending = self.add(lambda i: (i.resource_class, i.id) if i.is_pending else None)
        self.live = self.add(lambda i: ("", i.id) if i.due_at else None)
        self.owing = self.add(lambda i: ("", i.owes.due_at) if i.owes else None)
        self.purgeable = self.add(lambda i: ("", i.purge_at) if i.purge_at else None)


class ProvisionIndexes(Indexes[Provision]):
    def __init__(self, lag: float) -> None:
        super().__init__(lag)
        self.of_run = self.add(lambda p: None if p.is_closed else (p.run_id, p.id))
        self.told = self.add(lambda p: (p.run_id, p.deadline))
        self.open = self.add(lambda p: (p.needs.resource_class, p.id) if p.state is OPEN else None)
        self.waiting = self.add(lambda p: ("", (p.place.since, p.id)) if p.is_waiting and p.place else None)
        self.due = self.add(lambda p: ("", p.due_at) if p.due_at else None)
        self.purgeable = self.add(lambda p: ("", p.purge_at) if p.purge_at else None)


class PauseIndexes(Indexes[Pause]):
    def __init__(self, lag: float) -> None:
        super().__init__(lag)
        self.on = self.add(lambda p: ("", p.id) if p.is_on else None)


class WorkerIndexes(Indexes[Worker]):
    def __init__(self, lag: float) -> None:
        super().__init__(lag)
        self.due = self.add(lambda w: ("", w.due_at) if w.state is ACTIVE else None)
        self.cleanup = self.add(lambda w: ("", w.cleanup_at) if w.cleanup_at else None)
        self.owing = self.add(lambda w: ("", w.id) if w.owes_reschedule else None)
        self.leaving = self.add(lambda w: ("", w.id) if w.leaving and w.state is ACTIVE else None)
        self.listed = self.add(lambda w: ("", w.id) if w.state is not CLEANED_UP else None)
        self.purgeable = self.add(lambda w: ("", w.purge_at) if w.purge_at and not w.owes_reschedule else None)
        self.of_instance = self.add(  # part of a consistent read
            lambda w: (w.instance_id, w.id) if w.instance_id and w.state is not CLEANED_UP else None, current=True
        )


class JobIndexes(Indexes[Job]):
    def __init__(self, lag: float) -> None:
        super().__init__(lag)
        self.queued = self.add(
            lambda j: (j.run_id, (not j.losses, j.queued_at, j.index)) if j.state is QUEUED else None
        )
        self.waiting = self.add(lambda j: ("", j.run_id) if j.state is QUEUED else None)
        self.unverified = self.add(lambda j: ("", j.verify_by) if j.verify_by else None)
        self.unfinished = self.add(lambda j: (j.run_id, j.id) if j.state is not FINISHED else None)
        self.of_run = self.add(lambda j: (j.run_id, j.id))
        self.purgeable = self.add(lambda j: ("", j.purge_at) if j.purge_at else None)
        # That none is held any more must be true when it is said.
        self.held = self.add(lambda j: (j.worker, j.epoch) if j.state is RUNNING else None, current=True)
