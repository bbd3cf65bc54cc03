"""Whether the store for files has room for more. All files are measured at most every few seconds: in between, what
arrives here is added. So several processes that serve one home may take a little more than there is room for."""

import threading
import time
from pathlib import Path

from bullpen.errors import StoreFull
from bullpen.host.stored_files import FULL_REMEDY, no_room, stored_size

MEASURED_FOR = 5.0  # seconds


class StoreRoom:
    """Of one home. For any thread."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._taken = 0
        self._measured_at: float | None = None

    def check(self, more: int, room: int | None) -> None:
        """Raise StoreFull if so many bytes more would be more than `room`; None: there is no bound."""
        if room is None or more <= 0:
            return
        with self._lock:
            if self._measured_at is None or time.monotonic() > self._measured_at + MEASURED_FOR:
                self._taken, self._measured_at = stored_size(self._home), time.monotonic()
            if self._taken + more > room:
                raise StoreFull(no_room(more, self._taken, room), remedy=FULL_REMEDY, needed=more)

    def add(self, bytes_: int) -> None:
        with self._lock:
            self._taken += bytes_

    def forget(self) -> None:
        """Measure before the next check: files were removed."""
        with self._lock:
            self._measured_at = None
