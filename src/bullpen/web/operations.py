"""Provisions and releases that somebody asked for over HTTP: begun, answered at once, watched until they end.

An operation runs in the process that was asked. What it did is in the records whatever happens; that it was asked for,
and how it ended, stands in a small file of the home, so that any other process can be asked for it.
"""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from bullpen.errors import BullpenError, Conflict, NotFound
from bullpen.model.ticket import format_time, parse_time
from bullpen.ports import Chance, Clock
from bullpen.web.problems import too_busy

MOST_AT_ONCE = 32  # operations: each may hold a whole fleet's worth of waiting
KEPT = 1000  # files; the oldest go first
GRACE = 60.0  # seconds past its deadline after which an operation that did not end is not going to


class Operation(msgspec.Struct, rename="camel"):
    """`state` is running, succeeded, failed or lost: its process ended before it did; the run's records tell more."""

    id: str
    kind: str
    run_id: str
    state: str
    started_at: str
    ends_by: str
    finished_at: str = ""
    progress: str = ""
    reason: str = ""
    remedy: str = ""
    result: dict[str, Any] | None = None


Tell = Callable[[str], None]
Work = Callable[[asyncio.Event, Tell], Awaitable[tuple[bool, str, dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class _Running:
    operation: Operation
    stop: asyncio.Event
    task: "asyncio.Task[None]"


class Operations:
    """The operations of this process, and a look at those of others."""

    def __init__(self, home: Path, clock: Clock, chance: Chance) -> None:
        self._folder = home / "operations"
        self._clock = clock
        self._chance = chance
        self._closed = False
        self._running: dict[str, _Running] = {}

    def begin(self, kind: str, run_id: str, lasts: float, work: Work) -> Operation:
        """Start it and return it. Raise a 429 if too many run already."""
        if len(self._running) >= MOST_AT_ONCE or self._closed:
            raise too_busy(5.0)
        now = self._clock.now()
        operation = Operation(
            id=f"op-{self._chance.token()}",
            kind=kind,
            run_id=run_id,
            state="running",
            started_at=format_time(now),
            ends_by=format_time(now + timedelta(seconds=lasts)),
        )
        self._write(operation)
        stop = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._run(operation, work, stop))
        self._running[operation.id] = _Running(operation, stop, task)
        task.add_done_callback(lambda _: self._running.pop(operation.id, None))
        return operation

    def find(self, operation_id: str) -> Operation:
        """Raise NotFound."""
        if operation_id in self._running:
            return self._running[operation_id].operation
        try:
            if re.fullmatch(r"op-[0-9a-f]{16}", operation_id) is None:
                raise FileNotFoundError(operation_id)
            found = msgspec.json.decode((self._folder / f"{operation_id}.json").read_bytes(), type=Operation)
        except (OSError, msgspec.DecodeError) as exc:
            remedy = f"Operations are remembered until {KEPT} others have come; a run's records tell the rest."
            raise NotFound(f"{operation_id[:40]}: no such operation", remedy=remedy) from exc
        if found.state == "running" and self._clock.now() > _time(found.ends_by) + timedelta(seconds=GRACE):
            found.state, found.reason = "lost", "the process that ran it has ended"
        return found

    def stop(self, operation_id: str) -> Operation:
        """Ask an operation to stop, as a signal would; ended already is success. Raise NotFound, and Conflict for one
        that another process runs: only that one can be asked."""
        if operation_id in self._running:
            self._running[operation_id].stop.set()
        found = self.find(operation_id)
        if found.state == "running" and operation_id not in self._running:
            raise Conflict(f"{operation_id} runs in another process: releasing its run stops it too")
        return found

    async def close(self) -> None:
        """Ask every operation to stop, and wait until each has given back what it held."""
        self._closed = True
        for one in self._running.values():
            one.stop.set()
        await asyncio.gather(*(one.task for one in self._running.values()), return_exceptions=True)

    async def _run(self, operation: Operation, work: Work, stop: asyncio.Event) -> None:
        def tell(line: str) -> None:
            operation.progress = line

        try:
            succeeded, operation.reason, operation.result = await work(stop, tell)
            operation.state = "succeeded" if succeeded else "failed"
        except BullpenError as exc:
            operation.state, operation.reason, operation.remedy = "failed", str(exc), exc.remedy
        except Exception as exc:
            # Its text may hold anything: what happened is in the log, not in the answer.
            operation.state, operation.reason = "failed", f"an unexpected {type(exc).__name__}"
            raise
        finally:
            operation.finished_at = format_time(self._clock.now())
            self._write(operation)

    def _write(self, operation: Operation) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft = self._folder / f".{operation.id}"
        draft.write_bytes(json.dumps(msgspec.to_builtins(operation)).encode())
        os.replace(draft, self._folder / f"{operation.id}.json")
        if operation.state == "running":
            known = sorted(self._folder.glob("op-*.json"), key=lambda path: path.stat().st_mtime)
            for old in known[:-KEPT]:
                old.unlink(missing_ok=True)


def _time(text: str) -> datetime:
    return parse_time(text)
