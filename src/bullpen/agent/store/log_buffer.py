"""A job's output on its way to `bullpen serve`: gathered for a moment, and kept while the server does not answer."""

from __future__ import annotations

import time
from urllib.parse import urlencode

from bullpen.agent.store.connection import Caller, ServiceAway

GATHERED_FOR = 0.5  # seconds, or
CHUNK = 64 * 1024  # bytes, whichever comes first: a request for each line would cost more than the line
MOST_KEPT = 1024 * 1024  # bytes that wait for a service that is away; what comes after them is lost


class HttpLog:
    """Where the output of one assignment goes. Never an error: what cannot be kept is lost."""

    def __init__(self, caller: Caller, path: str, fence: int) -> None:
        self._caller = caller
        self._path = path
        self._fence = fence
        self._offset = 0
        self._waiting = b""
        self._since = 0.0
        self._closed = self._refused = False

    @property
    def is_over(self) -> bool:
        return self._refused or (self._closed and not self._waiting)

    def write(self, content: bytes) -> None:
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += content[: MOST_KEPT - len(self._waiting)]
        self.flush()

    def close(self) -> None:
        self._closed = True
        self.flush(at_once=True)

    def flush(self, *, at_once: bool = False) -> None:
        """Send what has been gathered for long enough."""
        while self._waiting and not self._refused:
            if not at_once and len(self._waiting) < CHUNK and time.monotonic() < self._since + GATHERED_FOR:
                return
            chunk = self._waiting[:CHUNK]
            where = urlencode({"fence": self._fence, "offset": self._offset})
            try:
                status, _ = self._caller.call("POST", f"{self._path}?{where}", chunk)
            except ServiceAway:
                return
            # Refused for good: the job belongs to another, or its log is full.
            self._refused = status >= 300
            self._offset += len(chunk)
            self._waiting = self._waiting[len(chunk) :]
