"""What jobs print, in memory."""

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.tables import Tables
from bullpen.errors import Refused
from bullpen.ports import LOG_LIMIT


class MemoryLogs:
    def __init__(self, tables: Tables, faults: Faults) -> None:
        self._tables = tables
        self._faults = faults

    @request("logs.append")
    def append(self, job_id: str, fence: int, offset: int, content: bytes) -> int:
        log = self._tables.logs.get((job_id, fence), bytearray())
        if len(log) < min(offset, LOG_LIMIT):
            raise Refused(f"{job_id}: its log has {len(log)} bytes, none at {offset} yet")
        log += content[len(log) - offset :][: LOG_LIMIT - len(log)] if offset <= len(log) else b""
        self._tables.logs[job_id, fence] = log
        return len(log)

    @request("logs.read")
    def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        return bytes(self._tables.logs.get((job_id, fence), b"")[offset : offset + limit])
