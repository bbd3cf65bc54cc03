"""Signals as something to wait on: their numbers arrive in a pipe, and so in the loop, where nothing is half done."""

from __future__ import annotations

import os
import signal

HEARD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


class UnixSignals:
    def __init__(self) -> None:
        self._heard, self._hearing = os.pipe()
        for end in (self._heard, self._hearing):
            os.set_blocking(end, False)

    def hear(self) -> None:
        """From now on, in this process; only its main thread may ask for it."""
        for number in HEARD:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._hearing, warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._heard

    def take(self) -> bytes:
        """The numbers of those that came since the last time, without waiting."""
        try:
            return os.read(self._heard, 4096)
        except BlockingIOError:
            return b""
