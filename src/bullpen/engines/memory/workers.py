"""Workers and their leases in memory."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.tables import Tables
from bullpen.model import worker as workers
from bullpen.model.control import Control
from bullpen.model.transition import Change
from bullpen.model.worker import ACTIVE, CLEANED_UP, Accepted, Beat, Card, Rejected, Worker
from bullpen.ports.liveness import HeldLease

SWEEPER = "rearm"


class MemoryWorkers:
    def __init__(self, tables: Tables, faults: Faults) -> None:
        self._tables = tables
        self._indexes = tables.worker_indexes
        self._faults = faults

    @request("workers.beat")
    def beat(self, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
        return [self._receive(key, beat) for key, beat in beats]

    @request("workers.workers")
    def workers(self, keys: Sequence[str]) -> dict[str, Worker]:
        return {key: self._tables.workers[key] for key in keys if key in self._tables.workers}

    @request("workers.rearm")
    def rearm(self, now: datetime, limit: int) -> int:
        # The index may lag: what stands now decides.
        stored = [found for one in self._indexes.due.up_to(now) if (found := self._tables.workers.get(one.id))]
        renewed = [w for w in stored if w.state is ACTIVE and w.due_at and w.due_at <= now and not w.is_suspect(now)]
        for worker in renewed[:limit]:
            assert worker.deadline is not None
            event = workers.Rearmed(at=now, by=SWEEPER, due_at=worker.deadline)
            self._tables.land([workers.rearm(worker, event)])
        return len(renewed[:limit])

    @request("workers.suspects")
    def suspects(self, now: datetime, limit: int) -> list[Worker]:
        return list(islice((worker for worker in self._indexes.due.up_to(now) if worker.is_suspect(now)), limit))

    @request("workers.to_clean")
    def to_clean(self, now: datetime, limit: int) -> list[Worker]:
        return list(islice(self._indexes.cleanup.up_to(now), limit))

    @request("workers.owing")
    def owing(self, limit: int) -> list[Worker]:
        return self._indexes.owing.page(limit)

    @request("workers.lost")
    def lost(self, limit: int) -> list[Worker]:
        return self._indexes.cleanup.page(limit)

    @request("workers.leaving")
    def leaving(self, limit: int) -> list[Worker]:
        return self._indexes.leaving.page(limit)

    @request("workers.listed")
    def listed(self, limit: int, after: str = "") -> list[Worker]:
        return self._indexes.listed.page(limit, after=after)

    @request("workers.census")
    def census(self) -> dict[tuple[str, str], int]:
        return dict(Counter((worker.domain, worker.state.value) for worker in self._indexes.listed.walk()))

    @request("workers.leases")
    def leases(self, since: datetime, limit: int) -> list[HeldLease]:
        return [
            HeldLease(one.instance_id, one.deadline, one.lease, one.beat_at)
            for one in islice(self._indexes.listed.walk(), limit)
            if one.state is ACTIVE and one.instance_id and one.deadline and one.beat_at and one.beat_at > since
        ]

    @request("workers.describe")
    def describe(self, key: str, card: Card) -> None:
        worker = self._tables.workers.get(key)
        if worker is not None and worker.state is not CLEANED_UP:
            self._tables.cards[key] = card

    @request("workers.cards")
    def cards(self, keys: Sequence[str]) -> dict[str, Card]:
        return {key: self._tables.cards[key] for key in keys if key in self._tables.cards}

    @request("workers.controls")
    def controls(self) -> dict[str, Control]:
        return dict(self._tables.controls)

    def _receive(self, key: str, beat: Beat) -> Accepted | Rejected:
        outcome = workers.receive(self._tables.workers.get(key), key, beat, self._tables.forgotten_epoch)
        if not isinstance(outcome, Change):
            return outcome
        (landed,) = self._tables.land([outcome])
        return Accepted.of(landed, resurrected=outcome.step == workers.resurrect.step)
