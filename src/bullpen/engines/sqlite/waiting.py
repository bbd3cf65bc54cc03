"""Waiting until the database may have changed: wake-ups first, a poll of the data version as the net."""

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bullpen.engines.sqlite.notify import CONTROL, Listener

POLL = 0.250  # seconds; what a lost wake-up costs at most


class Wakes:
    """One waiter's view. What happens after its creation, or after its last wait has returned, ends the next wait."""

    def __init__(self, changes: "Changes") -> None:
        self._changes = changes
        self._seen = changes.count

    async def wait(self, seconds: float) -> bool:
        """Return True as soon as something may have changed, False after so many seconds.

        Our own commits end it only if they woke the control plane; so a loop that writes does not wake itself for ever.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._changes.count == self._seen:
            remaining = end - loop.time()
            if remaining <= 0:
                return False
            await self._changes.next(min(remaining, POLL))
        self._seen = self._changes.count
        return True


class Changes:
    """Counts, on one event loop, the moments at which the database may have changed."""

    def __init__(self, sockets: Path, probe: Callable[[], None]) -> None:
        self.count = 0
        self._probe = probe
        self._loop = asyncio.get_running_loop()
        self._happened = asyncio.Event()
        self._listener: Listener | None = None
        with suppress(OSError):  # a full disk has no room for a socket: the poll has to do
            self._listener = Listener(sockets, f"{CONTROL}{os.getpid()}-{secrets.token_hex(4)}")
            self._loop.add_reader(self._listener.fileno(), self._on_datagrams)

    async def next(self, seconds: float) -> None:
        """Return at the next change, or after so many seconds."""
        self._probe()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._happened.wait()

    def note(self) -> None:
        """Something may have changed. May be called from any thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._count_one)

    def close(self) -> None:
        if self._listener is None:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(self._listener.fileno())
        self._listener.close()

    def _on_datagrams(self) -> None:
        if self._listener is not None and self._listener.drain():
            self._count_one()

    def _count_one(self) -> None:
        self.count += 1
        self._happened.set()  # wakes all who wait now …
        self._happened = asyncio.Event()  # … and none who waits later
