"""What wakes the agent's loop: another process or thread, and signals."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from typing import Protocol


class Wakeups(Protocol):
    """What the agent's loop waits on beside its timers: another process or thread asks it to look again."""

    def fileno(self) -> int: ...

    def drain(self) -> list[bytes]:
        """Take all wake-ups that have arrived, without waiting; empty: there was none."""

    def close(self) -> None: ...


class ThreadWakeup:
    """Wakes the agent's loop, as a listener beside the store does."""

    def __init__(self) -> None:
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)

    def fileno(self) -> int:
        return self._ear.fileno()

    def ring(self) -> None:
        with suppress(OSError):  # full is as good as rung
            self._mouth.send(b"!")

    def drain(self) -> list[bytes]:
        with suppress(OSError):
            return [self._ear.recv(4096)]
        return []

    def close(self) -> None:
        self._ear.close()
        self._mouth.close()


class UnixSignals:
    """Signals as something to wait on: their numbers arrive in a pipe, so the loop takes them between two turns."""

    def __init__(self) -> None:
        self._heard, self._hearing = os.pipe()
        for end in (self._heard, self._hearing):
            os.set_blocking(end, False)

    def hear(self) -> None:
        """From now on, in this process; only its main thread may ask for it."""
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._hearing, warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._heard

    def take(self) -> bytes:
        """The numbers of those that came since the last time, without waiting."""
        with suppress(BlockingIOError):
            return os.read(self._heard, 4096)
        return b""
