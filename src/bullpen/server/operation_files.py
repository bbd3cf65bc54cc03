"""Operations as files in the home: what a process that runs one tells all others about it.

    operations/op-0123456789abcdef.json    the operation, the lock of its process (`owner`), a hash of what was asked
    operations/NAME.lock                   held by a process while it lives

A file is written when its operation begins and again when it has ended; from then on it never changes. So a reader
keeps what it read of an ended one, and looks again only at those that were running.
"""

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from bullpen.lazy_dataclass import dataclass
from bullpen.schema.operation import Operation, OperationState, ProgressAnswer, ProvisionOperation, ReleaseOperation
from bullpen.schema.provision import ProvisionAnswer
from bullpen.schema.release import ReleaseAnswer
from bullpen.server.process_lock import ProcessLock, is_held

KEPT = 1000  # files; the oldest go first
ID = re.compile(r"op-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Recorded:
    """`request` is the hash of what was asked; empty for an operation that an older release began."""

    operation: Operation
    owner: str = ""
    request: str = ""


class OperationFiles:
    def __init__(self, home: Path) -> None:
        self.folder = home / "operations"
        self._lock: ProcessLock | None = None  # from the first operation on
        self._read: dict[str, tuple[tuple[int, int], Recorded]] = {}  # with what tells this file from the next one

    def exists(self, id: str) -> bool:
        return self._path(id).exists()

    def ids(self) -> list[str]:
        """In order. What was read of a file that is gone is forgotten."""
        with suppress(FileNotFoundError):
            found = sorted(name[:-5] for name in os.listdir(self.folder) if name.endswith(".json"))
            if len(self._read) > 2 * KEPT:
                self._read = {id: self._read[id] for id in found if id in self._read}
            return [id for id in found if ID.fullmatch(id)]
        return []

    def ended(self, id: str) -> Operation | None:
        """The operation, if it was read before and had ended: this costs no look at the disk."""
        known = self._read.get(id)
        return known[1].operation if known and known[1].operation.state is not OperationState.RUNNING else None

    def read(self, id: str) -> Recorded:
        """Raise OSError or MsgspecError."""
        if ID.fullmatch(id) is None:
            raise FileNotFoundError(id)
        try:
            status = self._path(id).stat()
        except OSError:
            self._read.pop(id, None)
            raise
        known, version = self._read.get(id), (status.st_ino, status.st_mtime_ns)
        if known is None or known[0] != version:
            known = self._read[id] = (version, _decoded(self._path(id).read_bytes()))
        return known[1]

    def add(self, recorded: Recorded) -> bool:
        """Write an operation down before it begins; False if there is one of this id."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        written = sorted(self.folder.glob("op-*.json"), key=_written_at)
        for old in written[:-KEPT]:
            old.unlink(missing_ok=True)
        draft = self._draft(recorded)
        try:
            os.link(draft, self._path(recorded.operation.id))
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def replace(self, recorded: Recorded) -> None:
        """Write down how an operation ended."""
        os.replace(self._draft(recorded), self._path(recorded.operation.id))

    def is_owner_alive(self, recorded: Recorded) -> bool:
        return not recorded.owner or is_held(self.folder, recorded.owner)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.let_go()
            self._lock = None

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.json"

    def _draft(self, recorded: Recorded) -> Path:
        self._lock = self._lock or ProcessLock(self.folder)
        draft = self.folder / f".{recorded.operation.id}-{self._lock.name}"
        content = json.dumps(_encoded(recorded.operation) | {"owner": self._lock.name, "request": recorded.request})
        try:
            draft.write_bytes(content.encode())
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        return draft


def _encoded(operation: Operation) -> dict[str, Any]:
    """As the release before reads it, too: its `finishedAt` is never null, and it knows no `cancelled`."""
    content: dict[str, Any] = msgspec.to_builtins(operation)
    content["finishedAt"] = operation.finished_at or ""
    if operation.state is OperationState.CANCELLED:
        content |= {"state": OperationState.FAILED.value, "cancelled": True}
    return content


def _decoded(written: bytes) -> Recorded:
    content: dict[str, Any] = msgspec.json.decode(written, type=dict[str, Any])
    owner, request, cancelled, result, progress = (
        content.pop(name, None) for name in ("owner", "request", "cancelled", "result", "progress")
    )
    content["finishedAt"] = content.get("finishedAt") or None
    if cancelled:
        content["state"] = OperationState.CANCELLED.value
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
    return Recorded(found, str(owner or ""), str(request or ""))


def _written_at(path: Path) -> float:
    """0 for one that another process has just removed: it was among the oldest."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
