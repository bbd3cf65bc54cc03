"""What the event stream shows of the pool, kept by difference: each record is read and encoded when it has changed.

    instances, jobs     by version: of those that are known, a read costs their number, and nothing else
    leases              once a second at most, the renewed ones in one event: beats never travel one by one
    workers, silent,    few rows each; told when they differ from what was told
    holds
    operations          of this process, and of others of this home

Each event is encoded once, for all streams. The beginning of a stream is made of the same bytes.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

import msgspec

from bullpen.inventory import Silence, silences
from bullpen.inventory.instance_views import leaving_at
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.pause import Pause
from bullpen.model.ticket import format_time
from bullpen.model.times import EPOCH
from bullpen.ports import Delta, HeldLease, Ports
from bullpen.schema.base import AnswerBody
from bullpen.schema.event import (
    EventKind,
    GoneEvent,
    LeaseAnswer,
    LeasesEvent,
    PausesEvent,
    ReadyEvent,
    SilentEvent,
    WorkersEvent,
)
from bullpen.schema.instance import instance_of
from bullpen.schema.job import job_of
from bullpen.schema.operation import Operation, OperationState
from bullpen.schema.pause import pauses_of
from bullpen.schema.status import domains_of
from bullpen.schema.worker import silent_worker_of
from bullpen.server.operations import Operations

MOST_JOBS = 20_000  # of all runs that have instances
MOST_LEASES = 10_000  # workers whose leases are looked at
EVERY, LONGEST_EVERY = 1.0, 15.0  # seconds between two looks at leases and what else has no versions
SHARE = 40  # … which are so many times as long as a look takes: a lease costs a read where stores have no scans
OVERLAP = timedelta(seconds=0.2)  # beats that land later than others with a later time
WHOLE_EVERY = 15.0  # seconds between two looks at all leases: the clock of another server may be behind for long

Shown: TypeAlias = AnswerBody | Operation
Key: TypeAlias = tuple[EventKind, str]


@dataclass(frozen=True, slots=True)
class _Look:
    leaving: dict[str, datetime]
    silent: Sequence[Silence]
    pauses: Sequence[Pause]
    leases: Sequence[HeldLease]


class LivePool:
    """The pool as of the last read."""

    def __init__(self, ports: Ports, operations: Operations) -> None:
        self._ports = ports
        self._operations = operations
        self._number = 0
        self._events: dict[Key, bytes] = {}  # what a new stream begins with
        self._news: dict[Key, bytes] = {}  # what the streams that are open do not know yet
        self._instances: dict[str, Instance] = {}
        self._versions: dict[str, int] = {}  # of instances
        self._runs: Counter[str] = Counter()  # live instances by run
        self._leaving: dict[str, datetime] = {}
        self._jobs: dict[str, int] = {}  # versions
        self._small: dict[Key, Shown] = {}  # what has no version
        self._leases: dict[str, HeldLease] = {}
        self._look_at = 0.0  # when to look again at what has no versions
        self._leases_until = EPOCH + OVERLAP
        self._whole_at = 0.0  # when to look at all of them again

    async def read(self) -> list[bytes]:
        """Read what has changed; returns the events that say so. Raise what the store raises; what was read before that
        comes with the next read."""
        look = await self._look() if asyncio.get_running_loop().time() >= self._look_at else None
        found = await self._ports.records.live_since(self._versions)
        self._take_instances(found, self._leaving if look is None else look.leaving)
        if self._runs or self._jobs:
            self._take_jobs(await self._ports.jobs.changed([*self._runs], self._jobs, MOST_JOBS))
        self._take_operations()
        self._take_small(EventKind.WORKERS, "", WorkersEvent(domains_of(await self._ports.workers.census())))
        if look is not None:
            self._take_small(EventKind.SILENT, "", SilentEvent([silent_worker_of(one) for one in look.silent]))
            self._take_small(EventKind.PAUSES, "", PausesEvent(pauses_of(look.pauses)))
            self._take_leases(look.leases)
        news, self._news = self._news, {}
        return [*news.values()]

    def live(self) -> list[Instance]:
        return [*self._instances.values()]

    async def _look(self) -> "_Look":
        """At what has no versions."""
        began = asyncio.get_running_loop().time()
        since = self._leases_until - OVERLAP
        if began >= self._whole_at:
            since, self._whole_at = EPOCH, began + WHOLE_EVERY
        found = _Look(
            await leaving_at(self._ports),
            await silences(self._ports),
            await self._ports.records.pauses(),
            await self._ports.workers.leases(since, MOST_LEASES),
        )
        took = asyncio.get_running_loop().time() - began
        self._look_at = began + min(LONGEST_EVERY, max(EVERY, SHARE * took))
        return found

    def beginning(self) -> Iterator[bytes]:
        """The events with which a stream begins: everything there is, then `ready`."""
        yield from list(self._events.values())
        if self._leases:
            yield self.encoded(EventKind.LEASES, _leases_event(self._leases.values()))
        yield self.ready()

    def ready(self) -> bytes:
        return self.encoded(EventKind.READY, ReadyEvent(len(self._instances), len(self._jobs)))

    def encoded(self, kind: EventKind, shown: Shown) -> bytes:
        self._number += 1
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self._number, kind.encode(), msgspec.json.encode(shown))

    def _show(self, kind: EventKind, id: str, shown: Shown) -> None:
        self._events[kind, id] = self._news[kind, id] = self.encoded(kind, shown)

    def _forget(self, kind: EventKind, ids: Iterable[str]) -> None:
        known = self._versions if kind is EventKind.INSTANCE else self._jobs
        for id in ids:
            known.pop(id, None)
            self._events.pop((kind, id), None)
            self._news[kind, id] = self.encoded(EventKind.GONE, GoneEvent(kind, id))

    def _take_instances(self, found: Delta[Instance], leaving: dict[str, datetime]) -> None:
        for id in found.gone:
            self._leave_run(self._instances.pop(id, None))
            self._leases.pop(id, None)
        for one in found.changed:
            self._leave_run(self._instances.get(one.id))
            self._instances[one.id], self._versions[one.id] = one, one.version
            if one.run_id:
                self._runs[one.run_id] += 1
        announced = [id for id in {**self._leaving, **leaving} if self._leaving.get(id) != leaving.get(id)]
        self._leaving = leaving
        for id in dict.fromkeys([*(one.id for one in found.changed), *announced]):
            if (record := self._instances.get(id)) is not None:
                self._show(EventKind.INSTANCE, id, instance_of(record, leaving=leaving.get(id)))
        self._forget(EventKind.INSTANCE, found.gone)

    def _take_jobs(self, found: Delta[Job]) -> None:
        for job in found.changed:
            self._jobs[job.id] = job.version
            self._show(EventKind.JOB, job.id, job_of(job))
        self._forget(EventKind.JOB, found.gone)

    def _leave_run(self, before: Instance | None) -> None:
        if before is not None and before.run_id:
            self._runs[before.run_id] -= 1
            if not self._runs[before.run_id]:
                del self._runs[before.run_id]

    def _take_operations(self) -> None:
        there = set()
        for operation in self._operations.recent():
            key = (EventKind.OPERATION, operation.id)
            if operation.state is OperationState.LOST and key not in self._small:
                continue  # one that was lost before is no news
            there.add(key)
            self._take_small(*key, operation)
        for key in [one for one in self._small if one[0] is EventKind.OPERATION and one not in there]:
            del self._small[key], self._events[key]  # it has ended, and that was told

    def _take_small(self, kind: EventKind, id: str, shown: Shown) -> None:
        if self._small.get((kind, id)) != shown:
            self._small[kind, id] = shown
            self._show(kind, id, shown)

    def _take_leases(self, found: Sequence[HeldLease]) -> None:
        known = self._leases
        renewed = [one for one in found if known.get(one.instance_id) != one and one.instance_id in self._instances]
        if not renewed:
            return
        self._leases |= {one.instance_id: one for one in renewed}
        self._leases_until = max(self._leases_until, *(one.beat_at for one in renewed))
        self._news[EventKind.LEASES, ""] = self.encoded(EventKind.LEASES, _leases_event(renewed))


def _leases_event(leases: Iterable[HeldLease]) -> LeasesEvent:
    return LeasesEvent(
        [
            LeaseAnswer(one.instance_id, _text(_second(one.deadline)), one.seconds, _text(_second(one.beat_at)))
            for one in leases
        ]
    )


def _second(at: datetime) -> int:
    return (at - EPOCH) // timedelta(seconds=1)


@lru_cache(maxsize=1024)  # a thousand leases end in the same few seconds
def _text(second: int) -> str:
    return format_time(EPOCH + timedelta(seconds=second))
