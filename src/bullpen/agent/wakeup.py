"""What wakes the agent's loop from another thread."""

from __future__ import annotations

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
