"""What jobs print, in files beside the database: a megabyte of output does not belong into its pages."""

import asyncio
from pathlib import Path

from bullpen.engines.sqlite import log_files
from bullpen.ports import LOG_LIMIT


class FileLogs:
    """`ports.Logs` in one home. Without fsync: a log is a convenience, the job's record is the result."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def append(self, job_id: str, fence: int, offset: int, content: bytes) -> int:
        path = log_files.path_of(self._home, job_id, fence)
        return await asyncio.to_thread(log_files.append, path, offset, content, LOG_LIMIT)

    async def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(log_files.read, log_files.path_of(self._home, job_id, fence), offset, limit)
