"""One home's database, as the ports use it: grouped durable writes, snapshot reads, and waiting for changes.

Opening is cheap, because every CLI call does it: threads start and sockets are bound when first needed.
"""

import asyncio
import os
import secrets
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from bullpen.engines.sqlite.errors import translated
from bullpen.engines.sqlite.migrations import FILE, load_scripts, open_home
from bullpen.engines.sqlite.notify import CONTROL, Listener, UnsafeDirectory, socket_directory
from bullpen.engines.sqlite.reader import Snapshot, SqliteReader
from bullpen.engines.sqlite.turnstile import PATIENCE, Turnstile
from bullpen.engines.sqlite.writer import Transaction, Writer
from bullpen.errors import ConfigError
from bullpen.ports.traffic import Traffic

T = TypeVar("T")

POLL = 0.250  # seconds; what a lost wake-up costs at most


class Database:
    """Open it with `Database.open`, in the process that uses it; any number may be open on one home."""

    def __init__(self, home: Path, scripts: Sequence[Path], patience: float, traffic: Traffic | None = None) -> None:
        self.path = home / FILE
        self._traffic = traffic or Traffic()
        turnstile = Turnstile(home, patience)
        connection = open_home(home, turnstile, scripts)
        try:
            self.sockets = socket_directory(home)
            self._writer = Writer(self.path, connection, turnstile, self.sockets, self._note_change, self._traffic)
        except (UnsafeDirectory, OSError) as exc:
            connection.close()
            raise ConfigError(f"{home}: no directory for sockets ({exc})") from exc
        except sqlite3.Error as exc:
            connection.close()
            raise translated(exc, self.path) from exc
        self._reader: SqliteReader | None = None
        self._changes: Changes | None = None
        self._process = os.getpid()
        self._closed = False
        _keep_in_forked_children(self)

    @classmethod
    def open(
        cls,
        home: Path,
        scripts: Sequence[Path] | None = None,
        patience: float = PATIENCE,
        traffic: Traffic | None = None,
    ) -> Self:
        """Open the home, created and migrated as needed. `patience`: seconds to wait for other processes' writes.

        Raise ConfigError if the home or its file cannot be used, Unavailable if it is locked for too long.
        """
        return cls(home, load_scripts() if scripts is None else scripts, patience, traffic)

    async def write(self, function: Callable[[Transaction], T]) -> T:
        """Run `function` in a durable transaction and return what it returned, after the commit.

        It lands whole, or raises and leaves nothing. Cancelling the await does not take it back. It shares the commit
        with others, and on a full disk it may be run again: so it must be short and do nothing but read and write
        through its argument.
        """
        return await self.submit(function)

    def submit(self, function: Callable[[Transaction], T]) -> asyncio.Future[T]:
        """As `write`; the future of its answer may be awaited by several."""
        self._check_usable()
        return self._writer.submit(function)

    async def read(self, function: Callable[[Snapshot], T]) -> T:
        """Run `function` on a snapshot that contains every write awaited before. It must fetch all it returns."""
        self._check_usable()
        if self._reader is None:
            self._reader = SqliteReader(self.path, self._traffic)
        return await self._reader.submit(function)

    def wakes(self) -> "Wakes":
        """A view for one waiter. Make it before the first read: what changes from now on ends its next wait."""
        self._check_usable()
        if self._changes is None:
            self._changes = Changes(self.sockets, self._writer.probe)
        return Wakes(self._changes)

    async def close(self) -> None:
        """Write what is waiting, then let go of everything. In a forked child: nothing."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        if self._changes is not None:
            self._changes.close()
        await asyncio.to_thread(self._stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _stop(self) -> None:
        self._writer.stop()
        if self._reader is not None:
            self._reader.stop()

    def _note_change(self) -> None:
        if self._changes is not None:
            self._changes.note()

    def _check_usable(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(f"{self.path} was opened in another process: a forked child opens its own")
        if self._closed:
            raise RuntimeError(f"{self.path} has been closed")


def _keep_in_forked_children(database: Database) -> None:
    """SQLite forbids a forked child even to close an inherited connection: there it is kept until the child ends."""
    reference = weakref.ref(database)
    inherited: list[Database] = []

    def keep() -> None:
        if (found := reference()) is not None:
            inherited.append(found)

    os.register_at_fork(after_in_child=keep)


# ---- waiting: wake-ups first, a poll of the data version as the net


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
        with suppress(RuntimeError):  # the loop is closed: no coroutine waits any more
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
        self._happened.set()  # wakes all that wait now …
        self._happened = asyncio.Event()  # … and none that waits later
