"""Provisions and releases that were requested over HTTP: started, answered at once, polled until they end.

An operation runs in the process that got the request. What it did is in the records whatever happens. A small file in
the home says that it was requested and how it ended, so that any other process can answer for it. The file names its
process by a lock that the kernel frees when the process dies. Where the disk has no room for the file, no provision
starts; a release runs all the same, and then only its own process can answer for it.
"""

import asyncio
import copy
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec

from bullpen.errors import BullpenError, Conflict, FailureCause, NotFound, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model import label as labels
from bullpen.model.progress import ProgressReport, Tell
from bullpen.model.ticket import format_time, parse_time
from bullpen.ports import Chance, Clock
from bullpen.schema.base import filled
from bullpen.schema.operation import (
    Operation,
    OperationKind,
    OperationList,
    OperationState,
    ProgressAnswer,
    ProvisionOperation,
    ReleaseOperation,
)
from bullpen.schema.provision import ProvisionAnswer
from bullpen.schema.release import ReleaseAnswer
from bullpen.server.operation_files import KEPT, OperationFiles, Recorded
from bullpen.server.problems import key_mismatch, too_busy
from bullpen.structured_log import get_logger

KINDS: dict[OperationKind, type[ProvisionOperation | ReleaseOperation]] = {
    OperationKind.PROVISION: ProvisionOperation,
    OperationKind.RELEASE: ReleaseOperation,
}
MOST_AT_ONCE = 32  # operations of a kind: each may hold a whole fleet's worth of waiting
MOST_OF_A_RUN = 4  # of those, that a workflow run has asked for itself
GRACE = 60.0  # seconds past its deadline after which an operation counts as lost
READ_AT_ONCE = 200  # files that one request, or one look of the event stream, reads
RECENT = timedelta(seconds=30)  # so long the event stream shows an operation that has ended

log = get_logger("bullpen.server")


Work = Callable[[asyncio.Event, Tell], Awaitable[ProvisionAnswer | ReleaseAnswer]]


@dataclass(frozen=True, slots=True)
class _Running:
    operation: Operation
    request: str
    stop: asyncio.Event
    task: "asyncio.Task[None]"
    waits: bool


class Operations:
    """The operations of this process, and a look at those of others."""

    def __init__(
        self, home: Path, clock: Clock, chance: Chance, on_end: Callable[[Operation], None] = lambda ended: None
    ) -> None:
        """`on_end` is called with each operation that has ended in this process."""
        self._files = OperationFiles(home)
        self._clock = clock
        self._chance = chance
        self._on_end = on_end
        self._closed = False
        self._running: dict[str, _Running] = {}
        self._unwritten: dict[str, Recorded] = {}  # ended, and their files could not be written; the oldest go first

    def begin(
        self,
        kind: OperationKind,
        run_id: str,
        lasts: float,
        work: Work,
        key: str = "",
        of_run: str = "",
        *,
        waits: bool = False,
        asked: msgspec.Struct | None = None,
    ) -> Operation:
        """Start it and return it; with the `key` of one that was begun before, return that. Raise a 422 if that one was
        asked for with another body (`asked`), a 429 if too many of its kind run already: a release gives back, and is
        not kept out by provisions. One that may wait long for room (`waits`) keeps none out that does not. A workflow
        run that asks for itself (`of_run`) has a few of its own, and leaves the rest to others. Raise Unavailable if it
        cannot be recorded."""
        id = f"op-{_digest(kind, run_id, key) if key else self._chance.token()}"
        request = _digest(_meant(asked) if asked else "")
        if key and self._is_known(id):
            return self._begun_before(id, request, key)
        running = [one for one in self._running.values() if one.waits == waits]
        of_kind = [one.operation.run_id for one in running if isinstance(one.operation, KINDS[kind])]
        own = [name for name in of_kind if of_run and (label := labels.parse(name)) and label.run == of_run]
        if len(of_kind) >= MOST_AT_ONCE or len(own) >= MOST_OF_A_RUN or self._closed:
            raise too_busy(5.0)
        now = self._clock.now()
        operation = KINDS[kind](
            id=id,
            run_id=run_id,
            state=OperationState.RUNNING,
            started_at=format_time(now),
            ends_by=format_time(now + timedelta(seconds=lasts)),
        )
        try:
            if not self._files.add(Recorded(operation, request=request)):
                return self._begun_before(id, request, key)  # another process was asked the same, and was faster
        except OSError as exc:
            if kind is not OperationKind.RELEASE:
                raise Unavailable(
                    f"{self._files.folder}: the operation cannot be recorded: {exc.strerror}",
                    remedy=f"Free space on the file system of {self._files.folder.parent}; releases still work.",
                ) from exc
            log.warning("operation not recorded", kind=kind, run=run_id, error=exc)
        stop = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._run(operation, request, work, stop))
        self._running[operation.id] = _Running(operation, request, stop, task, waits)
        task.add_done_callback(lambda _: self._running.pop(operation.id, None))
        return operation

    def find(self, operation_id: str) -> Operation:
        """Raise NotFound."""
        return self._recorded(operation_id).operation

    def page(self, limit: int, after: str, wanted: Callable[[Operation], bool]) -> OperationList:
        """Those that are wanted, by id, after one. At most `READ_AT_ONCE` are looked at: a page may hold fewer."""
        ids = [id for id in self._ids() if id > after]
        found: list[Operation] = []
        for looked, id in enumerate(ids):
            if len(found) == limit or looked == READ_AT_ONCE:
                return OperationList(found, ids[looked - 1])
            found += [one for one in self._found(id) if wanted(one)]
        return OperationList(found, "")

    def recent(self) -> list[Operation]:
        """Those that run, in any process of this home, or have just ended, or are lost: for the event stream."""
        since, left, found = format_time(self._clock.now() - RECENT), READ_AT_ONCE, []
        for id in self._ids():
            known = None if id in self._running else self._files.ended(id)
            if known is None and left > 0:  # of a great many that were never read, the rest is read the next time
                left -= id not in self._running
                known = next(self._found(id), None)
            if known is not None and (known.finished_at or since) >= since:
                found.append(copy.copy(known))  # it goes on changing, and is compared with what it was
        return found

    def serves(self, run_id: str) -> bool:
        """Whether an operation of this run is under way in this process."""
        return any(one.operation.run_id == run_id for one in self._running.values())

    def stop(self, operation_id: str) -> Operation:
        """Ask an operation to stop, as a signal would; ended already is success. Raise NotFound, and Conflict for one
        that another process runs: only that one can be asked."""
        if operation_id in self._running:
            self._running[operation_id].stop.set()
        found = self.find(operation_id)
        if found.state is OperationState.RUNNING and operation_id not in self._running:
            raise Conflict(f"{operation_id} runs in another process: releasing its run stops it too")
        return found

    async def close(self) -> None:
        """Ask every operation to stop, and wait until each has given back what it held."""
        self._closed = True
        for one in self._running.values():
            one.stop.set()
        await asyncio.gather(*(one.task for one in self._running.values()), return_exceptions=True)
        self._files.close()

    async def _run(self, operation: Operation, request: str, work: Work, stop: asyncio.Event) -> None:
        def tell(report: ProgressReport) -> None:
            operation.progress = filled(ProgressAnswer, report, waiting=dict(report.waiting))

        try:
            _end(operation, await work(stop, tell), stopped=stop.is_set())
        except BullpenError as exc:
            stopped = stop.is_set() and exc.cause is FailureCause.INTERRUPTED
            operation.state = OperationState.CANCELLED if stopped else OperationState.FAILED
            operation.cause, operation.reason, operation.remedy = exc.cause, str(exc), exc.remedy
        except Exception as exc:
            # Its text may hold anything: what happened is in the log, not in the answer.
            operation.state, operation.cause = OperationState.FAILED, FailureCause.FAULT
            operation.reason = f"an unexpected {type(exc).__name__}"
            raise
        finally:
            operation.finished_at = format_time(self._clock.now())
            self._write_last(Recorded(operation, request=request))
            self._on_end(operation)

    def _is_known(self, id: str) -> bool:
        return id in self._running or id in self._unwritten or self._files.exists(id)

    def _ids(self) -> list[str]:
        return sorted({*self._running, *self._unwritten, *self._files.ids()})

    def _found(self, id: str) -> Iterator[Operation]:
        """None, if another process has just removed it."""
        try:
            yield self.find(id)
        except NotFound:
            return

    def _recorded(self, operation_id: str) -> Recorded:
        """Raise NotFound."""
        if (running := self._running.get(operation_id)) is not None:
            return Recorded(running.operation, request=running.request)
        if operation_id in self._unwritten:
            return self._unwritten[operation_id]
        try:
            found = self._files.read(operation_id)
        except (OSError, msgspec.MsgspecError) as exc:
            remedy = f"Operations are kept until {KEPT} newer ones exist; the records of the run have the rest."
            raise NotFound(f"{operation_id[:40]}: no such operation", remedy=remedy) from exc
        if found.operation.state is OperationState.RUNNING and self._is_lost(found):
            lost = copy.copy(found.operation)
            lost.state, lost.reason = OperationState.LOST, "the process that ran it has ended"
            return Recorded(lost, found.owner, found.request)
        return found

    def _begun_before(self, id: str, request: str, key: str) -> Operation:
        """The operation that was begun with this key. Raise a 422 if it was asked for differently. An older release did
        not write down what was asked."""
        found = self._recorded(id)
        if found.request and found.request != request:
            raise key_mismatch(id, key, "begun")
        return found.operation

    def _is_lost(self, found: Recorded) -> bool:
        """Its process is dead, or hangs: it is long past its deadline."""
        if not self._files.is_owner_alive(found):
            return True
        return self._clock.now() > parse_time(found.operation.ends_by) + timedelta(seconds=GRACE)

    def _write_last(self, ended: Recorded) -> None:
        """How it ended; kept in memory if the disk has no room."""
        try:
            self._files.replace(ended)
        except OSError as exc:
            log.warning("end of operation not recorded", operation=ended.operation.id, error=exc)
            self._unwritten[ended.operation.id] = ended
            while len(self._unwritten) > KEPT:
                del self._unwritten[next(iter(self._unwritten))]


def _end(operation: Operation, result: ProvisionAnswer | ReleaseAnswer, *, stopped: bool) -> None:
    operation.state = OperationState(result.state.value)
    match operation, result:
        case ProvisionOperation(), ProvisionAnswer():
            operation.result, operation.cause = result, result.cause
            operation.reason, operation.remedy = result.reason, result.remedy
            if stopped and result.cause is FailureCause.INTERRUPTED:
                operation.state = OperationState.CANCELLED
        case ReleaseOperation(), ReleaseAnswer():
            operation.result = result


def _meant(asked: msgspec.Struct) -> str:
    """What a request asks for: without fields that have their default, which a later release may have more of."""
    fields = {one.encode_name: (getattr(asked, one.name), one.default) for one in msgspec.structs.fields(asked)}
    given = {name: value for name, (value, default) in fields.items() if value != default}
    return msgspec.json.encode(given, order="sorted").decode()


def _digest(*parts: str) -> str:
    """Sixteen hex digits that other parts do not yield: every process finds the same operation."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
