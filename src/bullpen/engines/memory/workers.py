"""Workers and their leases in memory."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from bullpen.engines.memory.faults import Faults
from bullpen.engines.memory.index import Index, Replica
from bullpen.model import worker as workers
from bullpen.model.control import Control
from bullpen.model.transition import Change
from bullpen.model.worker import ACTIVE, CLEANED_UP, Accepted, Beat, Card, Rejected, Worker

if TYPE_CHECKING:
    from bullpen.engines.memory.tables import Tables

SWEEPER = "rearm"


class WorkerIndexes:
    """What is asked of workers. All but `of_instance`, which is part of a consistent read, may lag."""

    def __init__(self, lag: float) -> None:
        self.due = Index[Worker](lambda w: ("", w.due_at) if w.state is ACTIVE else None)
        self.cleanup = Index[Worker](lambda w: ("", w.cleanup_at) if w.cleanup_at else None)
        self.owing = Index[Worker](lambda w: ("", w.id) if w.owes_reschedule else None)
        self.leaving = Index[Worker](lambda w: ("", w.id) if w.leaving and w.state is ACTIVE else None)
        self.listed = Index[Worker](lambda w: ("", w.id) if w.state is not CLEANED_UP else None)
        self.purgeable = Index[Worker](lambda w: ("", w.purge_at) if w.purge_at and not w.owes_reschedule else None)
        self.of_instance = Index[Worker](
            lambda w: (w.instance_id, w.id) if w.instance_id and w.state is not CLEANED_UP else None
        )
        self._lagging = Replica(lag, self.due, self.cleanup, self.owing, self.leaving, self.listed, self.purgeable)

    def follow(self, record_id: str, record: Worker | None) -> None:
        self._lagging.follow(record_id, record)
        if record is None:
            self.of_instance.remove(record_id)
        else:
            self.of_instance.put(record)

    def catch_up(self) -> None:
        self._lagging.catch_up()

    def newest(self, instance_id: str) -> Worker | None:
        """The worker of an instance that beat last."""
        return max(self.of_instance.walk(instance_id), key=lambda w: (w.beat_at, w.id), default=None)


class MemoryWorkers:
    """One process's access to the workers."""

    def __init__(self, tables: "Tables", faults: Faults) -> None:
        self._tables = tables
        self._faults = faults

    async def beat(self, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
        return await self._faults.call("workers.beat", lambda: [self._receive(key, beat) for key, beat in beats])

    async def workers(self, keys: Sequence[str]) -> dict[str, Worker]:
        stored = self._tables.workers
        return await self._faults.call("workers.workers", lambda: {key: stored[key] for key in keys if key in stored})

    async def rearm(self, now: datetime, limit: int) -> int:
        return await self._faults.call("workers.rearm", lambda: self._rearm(now, limit))

    async def suspects(self, now: datetime, limit: int) -> list[Worker]:
        def silent() -> list[Worker]:
            due = takewhile(lambda w: w.due_at is not None and w.due_at <= now, self._indexes().due.walk())
            return list(islice((worker for worker in due if worker.is_suspect(now)), limit))

        return await self._faults.call("workers.suspects", silent)

    async def to_clean(self, now: datetime, limit: int) -> list[Worker]:
        def due() -> list[Worker]:
            cleanup = self._indexes().cleanup.walk()
            return list(islice(takewhile(lambda w: w.cleanup_at is not None and w.cleanup_at <= now, cleanup), limit))

        return await self._faults.call("workers.to_clean", due)

    async def owing(self, limit: int) -> list[Worker]:
        return await self._faults.call("workers.owing", lambda: list(islice(self._indexes().owing.walk(), limit)))

    async def lost(self, limit: int) -> list[Worker]:
        return await self._faults.call("workers.lost", lambda: list(islice(self._indexes().cleanup.walk(), limit)))

    async def leaving(self, limit: int) -> list[Worker]:
        return await self._faults.call("workers.leaving", lambda: list(islice(self._indexes().leaving.walk(), limit)))

    async def listed(self, limit: int, after: str = "") -> list[Worker]:
        return await self._faults.call(
            "workers.listed", lambda: list(islice(self._indexes().listed.walk(after=after), limit))
        )

    async def census(self) -> dict[tuple[str, str], int]:
        def counted() -> dict[tuple[str, str], int]:
            return dict(Counter((worker.domain, worker.state.value) for worker in self._indexes().listed.walk()))

        return await self._faults.call("workers.census", counted)

    async def describe(self, key: str, card: Card) -> None:
        await self._faults.call("workers.describe", lambda: self._describe(key, card))

    async def cards(self, keys: Sequence[str]) -> dict[str, Card]:
        stored = self._tables.cards
        return await self._faults.call("workers.cards", lambda: {key: stored[key] for key in keys if key in stored})

    async def controls(self) -> dict[str, Control]:
        return await self._faults.call("workers.controls", lambda: dict(self._tables.controls))

    def _receive(self, key: str, beat: Beat) -> Accepted | Rejected:
        outcome = workers.receive(self._tables.workers.get(key), key, beat, self._tables.forgotten_epoch)
        if not isinstance(outcome, Change):
            return outcome
        (landed,) = self._tables.land([outcome])
        return Accepted(landed, resurrected=outcome.step == workers.resurrect.step)

    def _describe(self, key: str, card: Card) -> None:
        worker = self._tables.workers.get(key)
        if worker is not None and worker.state is not CLEANED_UP:
            self._tables.cards[key] = card

    def _rearm(self, now: datetime, limit: int) -> int:
        early = takewhile(lambda w: w.due_at is not None and w.due_at <= now, self._indexes().due.walk())
        # The index may lag: what stands now decides.
        stored = [found for worker in list(early) if (found := self._tables.workers.get(worker.id))]
        renewed = [w for w in stored if w.state is ACTIVE and w.due_at and w.due_at <= now and not w.is_suspect(now)]
        for worker in renewed[:limit]:
            assert worker.deadline is not None
            event = workers.Rearmed(at=now, by=SWEEPER, due_at=worker.deadline)
            self._tables.land([workers.rearm(worker, event)])
        return len(renewed[:limit])

    def _indexes(self) -> WorkerIndexes:
        self._tables.worker_indexes.catch_up()
        return self._tables.worker_indexes
