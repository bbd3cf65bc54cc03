"""Artifacts of jobs as files of a home, beside their logs: `<home>/jobs/<job id>.<fence>.artifacts`.

An agent on this machine writes them itself, in one go, and looks for room itself. Those of agents elsewhere arrive in
pieces.
"""

import asyncio
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from bullpen.engines.sqlite.logs import path_of
from bullpen.engines.sqlite.pieces import receive
from bullpen.engines.sqlite.room import StoreRoom
from bullpen.errors import Refused, Unavailable
from bullpen.host.stored_files import artifact_files
from bullpen.ports import ARTIFACTS_LIMIT, KEPT_AT_LEAST


class FileArtifacts:
    """`ports.Artifacts` in one home."""

    def __init__(self, home: Path, store: StoreRoom | None = None) -> None:
        self._home = home
        self._store = store or StoreRoom(home)

    async def append(
        self, job_id: str, fence: int, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        if size > ARTIFACTS_LIMIT:
            raise Refused(f"artifacts of {size} bytes: at most {ARTIFACTS_LIMIT // 1024**2} MiB are allowed")
        path = path_of(self._home, job_id, fence, "artifacts")
        try:
            return await asyncio.to_thread(self._append, path, offset, size, content, room)
        except OSError as exc:
            raise Unavailable(f"{path}: cannot be written ({exc.strerror})") from exc

    async def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        path = path_of(self._home, job_id, fence, "artifacts")
        try:
            return await asyncio.to_thread(_read, path, offset, limit)
        except FileNotFoundError:
            return b""
        except OSError as exc:
            raise Unavailable(f"{path}: cannot be read ({exc.strerror})") from exc

    async def size(self) -> int:
        return await asyncio.to_thread(lambda: sum(status.st_size for _, status in artifact_files(self._home)))

    async def tidy(self, now: datetime, room: int) -> int:
        try:
            return await asyncio.to_thread(self._tidy, now.timestamp() - KEPT_AT_LEAST, room)
        except OSError as exc:
            raise Unavailable(f"{exc.filename}: cannot be removed ({exc.strerror})") from exc

    def _append(self, path: Path, offset: int, size: int, content: bytes, room: int | None) -> int:
        with suppress(FileNotFoundError):
            if path.stat().st_size == size:
                return size
        path.parent.mkdir(mode=0o700, exist_ok=True)
        part = path.with_suffix(".artifacts-part")
        length = receive(part, offset, size, content, self._store, room)
        if length == size:
            with suppress(FileNotFoundError):  # another request has just completed it
                os.replace(part, path)
        return length

    def _tidy(self, before: float, room: int) -> int:
        found = sorted(artifact_files(self._home), key=lambda one: (one[1].st_mtime, one[0]))
        taken, freed = sum(status.st_size for _, status in found), 0
        for path, status in found:
            if status.st_mtime < before and (path.suffix == ".artifacts-part" or taken - freed > room):
                path.unlink(missing_ok=True)
                freed += status.st_size
        self._store.forget()
        return freed


def _read(path: Path, offset: int, limit: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(limit)
