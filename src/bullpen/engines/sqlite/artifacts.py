"""Artifacts of jobs as files of a home, beside their logs: `<home>/jobs/<job id>.<fence>.artifacts`.

An agent on this machine writes them itself, in one go. Those of agents elsewhere arrive in pieces.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from bullpen.engines.sqlite.logs import path_of
from bullpen.engines.sqlite.pieces import receive
from bullpen.errors import Refused, Unavailable
from bullpen.ports import ARTIFACTS_LIMIT


class FileArtifacts:
    """`ports.Artifacts` in one home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def append(self, job_id: str, fence: int, offset: int, size: int, content: bytes) -> int:
        if size > ARTIFACTS_LIMIT:
            raise Refused(f"artifacts of {size} bytes: at most {ARTIFACTS_LIMIT} are allowed")
        path = path_of(self._home, job_id, fence, "artifacts")
        try:
            return await asyncio.to_thread(_append, path, offset, size, content)
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


def _append(path: Path, offset: int, size: int, content: bytes) -> int:
    with suppress(FileNotFoundError):
        if path.stat().st_size == size:
            return size
    path.parent.mkdir(mode=0o700, exist_ok=True)
    part = path.with_suffix(".artifacts-part")
    length = receive(part, offset, size, content)
    if length == size:
        with suppress(FileNotFoundError):  # another request has just completed it
            os.replace(part, path)
    return length


def _read(path: Path, offset: int, limit: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(limit)
