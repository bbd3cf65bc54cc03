"""Logs of jobs as files of a home: `<home>/jobs/<job id>.<fence>.log`.

They are files because a megabyte of output does not belong into the pages of a database. Several processes write them:
servers for agents elsewhere, and the agents on this machine. A lock on the file makes look and write one step; what has
been written is never changed.
"""

import asyncio
import fcntl
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.ports import LOG_LIMIT

FOLDER = "jobs"
KINDS = ("log", "artifacts", "artifacts-part")  # of files: of one assignment each
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class FileLogs:
    """`ports.Logs` in one home. Without fsync: a log is a convenience, the job's record is the result."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def append(self, job_id: str, fence: int, offset: int, content: bytes) -> int:
        path = path_of(self._home, job_id, fence)
        return await asyncio.to_thread(_append, path, offset, content, LOG_LIMIT)

    async def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(_read, path_of(self._home, job_id, fence), offset, limit)


def remove_logs(home: Path, jobs: Iterable[tuple[str, int]]) -> None:
    """The logs and artifacts of every assignment of these jobs, each named with its last fence."""
    for job_id, last in jobs:
        for fence in range(last + 1):
            for kind in KINDS:
                with suppress(OSError, Refused):  # what cannot be removed stays, and does no harm
                    path_of(home, job_id, fence, kind).unlink()


def path_of(home: Path, job_id: str, fence: int, kind: str = "log") -> Path:
    """Raise Refused for an id that is none: it must not lead out of the folder."""
    if not _NAME.fullmatch(job_id) or fence < 0:
        raise Refused(f"{job_id!r} is not the id of a job with a log")
    return home / FOLDER / f"{job_id}.{fence}.{kind}"


def _append(path: Path, offset: int, content: bytes, limit: int) -> int:
    """Write at an offset what is not there yet, up to `limit` bytes in all, and return the length."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            length = os.fstat(file).st_size
            if length < min(offset, limit):
                raise Refused(f"{path.name}: it has {length} bytes, none at {offset} yet")
            new = content[length - offset :][: limit - length] if offset <= length else b""
            while new:
                written = os.pwrite(file, new, length)
                new, length = new[written:], length + written
            return length
        finally:
            os.close(file)  # and with it the lock
    except OSError as exc:
        raise Unavailable(f"{path}: cannot be written ({exc.strerror})") from exc


def _read(path: Path, offset: int, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(limit)
    except FileNotFoundError:
        return b""
    except OSError as exc:
        raise Unavailable(f"{path}: cannot be read ({exc.strerror})") from exc
