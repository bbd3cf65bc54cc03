"""Provisions and releases that were requested over HTTP: started, answered at once, polled until they end.

An operation runs in the process that got the request. What it did is in the records whatever happens. A small file in
the home says that it was requested and how it ended, so that any other process can answer for it. The file names its
process by a lock that the kernel frees when the process dies. Where the disk has no room for the file, no provision
starts; a release runs all the same, and then only its own process can answer for it.
"""

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import msgspec

from bullpen.errors import BullpenError, Conflict, FailureCause, NotFound, Unavailable
from bullpen.model import label as labels
from bullpen.model.progress import ProgressReport, Tell
from bullpen.model.ticket import format_time, parse_time
from bullpen.ports import Chance, Clock
from bullpen.schema.base import filled
from bullpen.schema.operation import (
    Operation,
    OperationKind,
    OperationState,
    ProgressAnswer,
    ProvisionOperation,
    ReleaseOperation,
)
from bullpen.schema.provision import ProvisionAnswer
from bullpen.schema.release import ReleaseAnswer
from bullpen.server.problems import too_busy
from bullpen.server.process_lock import ProcessLock, is_held
from bullpen.structured_log import get_logger

KINDS: dict[OperationKind, type[ProvisionOperation | ReleaseOperation]] = {
    OperationKind.PROVISION: ProvisionOperation,
    OperationKind.RELEASE: ReleaseOperation,
}
MOST_AT_ONCE = 32  # operations of a kind: each may hold a whole fleet's worth of waiting
MOST_OF_A_RUN = 4  # of those, that a workflow run has asked for itself
KEPT = 1000  # files; the oldest go first
GRACE = 60.0  # seconds past its deadline after which an operation counts as lost

log = get_logger("bullpen.server")


Work = Callable[[asyncio.Event, Tell], Awaitable[ProvisionAnswer | ReleaseAnswer]]


@dataclass(frozen=True, slots=True)
class _Running:
    operation: Operation
    stop: asyncio.Event
    task: "asyncio.Task[None]"
    waits: bool


class Operations:
    """The operations of this process, and a look at those of others."""

    def __init__(self, home: Path, clock: Clock, chance: Chance) -> None:
        self._folder = home / "operations"
        self._clock = clock
        self._chance = chance
        self._closed = False
        self._running: dict[str, _Running] = {}
        self._lock: ProcessLock | None = None  # from the first operation on
        self._unwritten: dict[str, Operation] = {}  # ended, and their files could not be written; the oldest go first

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
    ) -> Operation:
        """Start it and return it; with the `key` of one that was begun before, return that. Raise a 429 if too many of
        its kind run already: a release gives back, and is not kept out by provisions. One that may wait long for room
        (`waits`) keeps none out that does not. A workflow run that asks for itself (`of_run`) has a few of its own,
        and leaves the rest to others. Raise Unavailable if it cannot be recorded."""
        id = f"op-{_digest(kind, run_id, key) if key else self._chance.token()}"
        if key and self._is_known(id):
            return self.find(id)
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
            if not self._write_first(operation):
                return self.find(id)  # another process was asked the same, and was faster
        except OSError as exc:
            if kind is not OperationKind.RELEASE:
                raise Unavailable(
                    f"{self._folder}: the operation cannot be recorded: {exc.strerror}",
                    remedy=f"Free space on the file system of {self._folder.parent}; releases still work.",
                ) from exc
            log.warning("operation not recorded", kind=kind, run=run_id, error=exc)
        stop = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._run(operation, work, stop))
        self._running[operation.id] = _Running(operation, stop, task, waits)
        task.add_done_callback(lambda _: self._running.pop(operation.id, None))
        return operation

    def find(self, operation_id: str) -> Operation:
        """Raise NotFound."""
        if operation_id in self._running:
            return self._running[operation_id].operation
        if operation_id in self._unwritten:
            return self._unwritten[operation_id]
        try:
            if re.fullmatch(r"op-[0-9a-f]{16}", operation_id) is None:
                raise FileNotFoundError(operation_id)
            found, owner = _read(self._folder / f"{operation_id}.json")
        except (OSError, msgspec.MsgspecError) as exc:
            remedy = f"Operations are kept until {KEPT} newer ones exist; the records of the run have the rest."
            raise NotFound(f"{operation_id[:40]}: no such operation", remedy=remedy) from exc
        if found.state is OperationState.RUNNING and self._is_lost(found, owner):
            found.state, found.reason = OperationState.LOST, "the process that ran it has ended"
        return found

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
        if self._lock is not None:
            self._lock.let_go()
            self._lock = None

    async def _run(self, operation: Operation, work: Work, stop: asyncio.Event) -> None:
        def tell(report: ProgressReport) -> None:
            operation.progress = filled(ProgressAnswer, report, waiting=dict(report.waiting))

        try:
            _end(operation, await work(stop, tell))
        except BullpenError as exc:
            operation.state, operation.cause = OperationState.FAILED, exc.cause
            operation.reason, operation.remedy = str(exc), exc.remedy
        except Exception as exc:
            # Its text may hold anything: what happened is in the log, not in the answer.
            operation.state, operation.cause = OperationState.FAILED, FailureCause.FAULT
            operation.reason = f"an unexpected {type(exc).__name__}"
            raise
        finally:
            operation.finished_at = format_time(self._clock.now())
            self._write_last(operation)

    def _is_known(self, id: str) -> bool:
        return id in self._running or id in self._unwritten or (self._folder / f"{id}.json").exists()

    def _is_lost(self, found: Operation, owner: str) -> bool:
        """Its process is dead, or hangs: it is long past its deadline."""
        if owner and not is_held(self._folder, owner):
            return True
        return self._clock.now() > parse_time(found.ends_by) + timedelta(seconds=GRACE)

    def _write_first(self, operation: Operation) -> bool:
        """Write it down before it begins; False if there is one of this name."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        known = sorted(self._folder.glob("op-*.json"), key=_written_at)
        for old in known[:-KEPT]:
            old.unlink(missing_ok=True)
        draft = self._draft(operation)
        try:
            os.link(draft, self._folder / f"{operation.id}.json")
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _write_last(self, operation: Operation) -> None:
        """How it ended; kept in memory if the disk has no room."""
        try:
            os.replace(self._draft(operation), self._folder / f"{operation.id}.json")
        except OSError as exc:
            log.warning("end of operation not recorded", operation=operation.id, error=exc)
            self._unwritten[operation.id] = operation
            while len(self._unwritten) > KEPT:
                del self._unwritten[next(iter(self._unwritten))]

    def _draft(self, operation: Operation) -> Path:
        self._lock = self._lock or ProcessLock(self._folder)
        draft = self._folder / f".{operation.id}-{self._lock.name}"
        try:
            draft.write_bytes(json.dumps({**msgspec.to_builtins(operation), "owner": self._lock.name}).encode())
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        return draft


def _end(operation: Operation, result: ProvisionAnswer | ReleaseAnswer) -> None:
    operation.state = OperationState(result.state.value)
    match operation, result:
        case ProvisionOperation(), ProvisionAnswer():
            operation.result, operation.cause = result, result.cause
            operation.reason, operation.remedy = result.reason, result.remedy
        case ReleaseOperation(), ReleaseAnswer():
            operation.result = result


def _read(path: Path) -> tuple[Operation, str]:
    """An operation and the name of the lock of its process, as `_draft` wrote them. Raise OSError or MsgspecError."""
    content: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    owner, result, progress = (content.pop(name, None) for name in ("owner", "result", "progress"))
    found = msgspec.convert(content, ProvisionOperation | ReleaseOperation)
    with suppress(msgspec.ValidationError):  # an older release wrote a sentence
        found.progress = msgspec.convert(progress, ProgressAnswer | None)
    try:
        if isinstance(found, ProvisionOperation):
            found.result = msgspec.convert(result, ProvisionAnswer | None)
        else:
            found.result = msgspec.convert(result, ReleaseAnswer | None)
    except msgspec.ValidationError:
        found.result = cast(Any, result)  # an older release wrote it: it is shown as it stands
    return found, str(owner or "")


def _written_at(path: Path) -> float:
    """0 for one that another process has just removed: it was among the oldest."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _digest(*parts: str) -> str:
    """Sixteen hex digits that other parts do not yield: every process finds the same operation."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
