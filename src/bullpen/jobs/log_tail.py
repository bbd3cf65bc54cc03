"""Follows what a job prints, line by line, across the workers that it is given to."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from bullpen.model.job import FINISHED, QUEUED, State
from bullpen.ports import LOG_LIMIT

CHUNK = 64 * 1024
CHUNKS_AT_ONCE = 16  # of one job that prints without end: the others are followed too
LONGEST_LINE = 8 * 1024  # bytes; a longer one is broken, so that one without an end is seen at all


ReadLog = Callable[[str, int, int, int], Awaitable[bytes]]
"""Reads the log of a job and its fence from an offset on, up to so many bytes; see `ports.Logs.read`."""


class JobStanding(Protocol):
    """A job as its record, or a server, says that it stands."""

    @property
    def state(self) -> State: ...

    @property
    def fence(self) -> int: ...


class JobLogTail:
    """Remembers how far a job's output has been read."""

    def __init__(self, read: ReadLog, job_id: str) -> None:
        self._read_log = read
        self._id = job_id
        self._fence = 0
        self._offset = 0
        self._rest = b""
        self._is_over = False

    async def new_lines(self, job: JobStanding) -> list[str]:
        """What was printed since the last call. `job` is its record as it stands: once finished, nothing is held back.

        An assignment that was lost is read to its end first, and a line says that another one begins.
        """
        lines: list[str] = []
        if self._is_over:
            return lines
        while self._fence < job.fence:
            if self._fence:
                lines += await self._read(to_the_end=True)
                lines.append(f"[its runner was lost; attempt {self._fence + 1} starts from the beginning]")
            self._fence, self._offset = self._fence + 1, 0
        if self._fence:
            lines += await self._read(to_the_end=job.state in (QUEUED, FINISHED))
        self._is_over = job.state is FINISHED
        return lines

    async def _read(self, *, to_the_end: bool) -> list[str]:
        lines: list[str] = []
        # A log that has ended is read whole: its length is bounded, and it is not asked for again.
        for _ in range(LOG_LIMIT // CHUNK + CHUNKS_AT_ONCE if to_the_end else CHUNKS_AT_ONCE):
            chunk = await self._read_log(self._id, self._fence, self._offset, CHUNK)
            self._offset += len(chunk)
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            lines += [_text(line) for line in whole]
            while len(self._rest) > LONGEST_LINE:
                lines.append(_text(self._rest[:LONGEST_LINE]))
                self._rest = self._rest[LONGEST_LINE:]
            if len(chunk) < CHUNK:
                break
        if to_the_end and self._rest:
            lines.append(_text(self._rest))
            self._rest = b""
        return lines


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
