"""The event stream of the pool: one read of the store for all watchers, and each gets what changed.

There is no journal to read: an event is the latest state of what changed since the last read, so of two changes in one
moment a watcher sees the second. The stream of a watcher that does not keep up is closed; it connects again. One read
of a large pool may have more events than a watcher may lag behind: lag is measured before they are added.

Operations are shown when they begin, when their progress changes, and when they end: those of this process with their
progress, those of other processes of this home without it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeAlias

import msgspec

from bullpen.errors import BullpenError
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.schema.base import AnswerBody
from bullpen.schema.event import EventKind, GoneEvent, TroubleEvent, WorkersEvent
from bullpen.schema.instance import instance_of
from bullpen.schema.job import job_of
from bullpen.schema.operation import Operation, OperationState
from bullpen.schema.status import domains_of
from bullpen.server.operations import Operations

TICK = 0.5  # seconds between reads at least: a watcher is a person
QUIET = 15.0  # seconds after which a silent stream sends a comment: proxies close idle connections
RECHECK = 2.0  # seconds after which a silent stream checks whether its token is still valid
BACKLOG = 1000  # events that a watcher may lag behind
JOBS_PER_RUN = 500

Shown: TypeAlias = AnswerBody | Operation


class Events:
    """The stream. Its one task reads only while a watcher is connected."""

    def __init__(self, ports: Ports, operations: Operations) -> None:
        self._ports = ports
        self._operations = operations
        self._watchers: list[asyncio.Queue[bytes | None]] = []
        self._known: dict[tuple[EventKind, str], Shown] = {}
        self._task: asyncio.Task[None] | None = None
        self._number = 0

    async def stream(self, may_go_on: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        """Everything there is, then everything that changes. It ends when `may_go_on` says so, which is asked before
        each event and every few seconds: a token may be revoked, or expire, while its stream is open."""
        watcher: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watchers.append(watcher)  # first: what changes while the beginning is read is not missed
        try:
            if self._task is None or self._task.done():
                self._known = {}  # nothing was read while no watcher was connected
                self._task = asyncio.get_running_loop().create_task(self._watch())
            known = self._known
            yield b"retry: 2000\n\n"
            for (kind, _), shown in known.items():
                if not may_go_on():
                    return
                yield self._event(kind, shown)
            silent = 0.0
            while True:
                try:
                    async with asyncio.timeout(RECHECK):
                        event = await watcher.get()
                except TimeoutError:
                    silent += RECHECK
                    event = b": still here\n\n" if silent >= QUIET else b""
                if event is None or not may_go_on():
                    return
                if event:
                    silent = 0.0
                    yield event
        finally:
            self._watchers.remove(watcher)

    def count(self) -> int:
        """How many streams are open."""
        return len(self._watchers)

    async def close(self) -> None:
        for watcher in self._watchers:
            _end(watcher)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while self._watchers:
            try:
                news = self._news(await self._read())
            except (BullpenError, OSError) as exc:  # of the store, or of the files of operations
                news = [(EventKind.TROUBLE, TroubleEvent(str(exc)))]
            self._tell([self._event(kind, shown) for kind, shown in news])
            await asyncio.sleep(TICK)
            await self._ports.signals.wait(TICK)

    async def _read(self) -> dict[tuple[EventKind, str], Shown]:
        live = await every_live(self._ports)
        found: dict[tuple[EventKind, str], Shown] = {(EventKind.INSTANCE, one.id): instance_of(one) for one in live}
        for run_id in dict.fromkeys(one.run_id for one in live if one.run_id):
            for job in await self._ports.jobs.of_run(run_id, JOBS_PER_RUN):
                found[EventKind.JOB, job.id] = job_of(job)
        for operation in self._operations.recent():
            key = (EventKind.OPERATION, operation.id)
            if operation.state is not OperationState.LOST or key in self._known:  # one that was lost before is no news
                found[key] = operation
        found[EventKind.WORKERS, ""] = WorkersEvent(domains_of(await self._ports.workers.census()))
        return found

    def _news(self, found: dict[tuple[EventKind, str], Shown]) -> list[tuple[EventKind, Shown]]:
        before, self._known = self._known, found
        news = [(kind, shown) for (kind, id), shown in found.items() if before.get((kind, id)) != shown]
        gone = [key for key in before if key not in found and key[0] is not EventKind.OPERATION]  # it has ended
        return [*news, *((EventKind.GONE, GoneEvent(kind, id)) for kind, id in gone)]

    def _event(self, kind: EventKind, shown: Shown) -> bytes:
        self._number += 1
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self._number, kind.encode(), msgspec.json.encode(shown))

    def _tell(self, events: Sequence[bytes]) -> None:
        for watcher in self._watchers:
            if watcher.qsize() >= BACKLOG:
                _end(watcher)
                continue
            for event in events:
                watcher.put_nowait(event)


def _end(watcher: asyncio.Queue[bytes | None]) -> None:
    """Close its stream, without what it has not read."""
    while not watcher.empty():
        watcher.get_nowait()
    watcher.put_nowait(None)
