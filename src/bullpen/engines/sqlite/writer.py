"""Writes: one thread, one connection, many functions in one commit.

    wait for work ── turnstile ── BEGIN ── each waiting function in its savepoint ── COMMIT ── answer ── wake

A durable commit costs one fsync however many functions it holds, so whatever arrives while the thread waits for its
turn or for the disk shares the next commit. A function that raises is rolled back alone. No caller
hears of success before the commit; if the commit fails, all callers of the group get the error, and nothing was
written.
"""

import asyncio
import functools
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from bullpen.engines.sqlite import notify, reserve
from bullpen.engines.sqlite.errors import is_full, locked, low, translated
from bullpen.engines.sqlite.reader import SERVICE, Snapshot, WorkOutcome, deliver
from bullpen.engines.sqlite.turnstile import Turnstile, TurnstileTimeout, connect, set_pace
from bullpen.ports.traffic import RequestResult, Traffic

T = TypeVar("T")

CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
FULL_ATTEMPTS = 4  # of a group that finds the log at its end
FULL_PAUSE = 0.02  # seconds between them: a reader keeps the log from beginning again, for a moment
TENDED_EVERY = 200  # turns
REST_WITHIN = 0.5  # seconds that the rest of the log waits for its turn: a database that closes waits for it
WRITTEN_BACK_AFTER = 3000  # rows, about as many pages of log: well before SQLite does it within a commit
GROUP_LASTS = 0.010  # seconds; with four processes in line, the last waits three of these and three fsyncs


class Transaction(Snapshot):
    """What a function writes through; what it wakes is woken after the commit, and not at all if it raises."""

    def __init__(self, connection: sqlite3.Connection, database: Path) -> None:
        super().__init__(connection)
        self._database = database
        self.wakes: list[tuple[str, bytes]] = []
        self.control: list[bytes] = []

    def executemany(self, sql: str, rows: Iterable[Iterable[Any]]) -> sqlite3.Cursor:
        return self._connection.executemany(sql, (tuple(row) for row in rows))

    def begin_work(self) -> None:
        """What follows is new work, not the end of any. Raise Unavailable if the disk has too little room for it."""
        if reserve.is_low(self._database.parent):
            raise low(self._database)

    def wake(self, name: str, payload: bytes = b"") -> None:
        """Wake the listener of that name: an agent, by its instance id."""
        self.wakes.append((name, payload))

    def wake_control(self, payload: bytes = b"") -> None:
        """Wake every process of the control plane, this one included."""
        self.control.append(payload)


Work = tuple[Callable[[Transaction], Any], asyncio.Future[Any]]


class Writer:
    """Owns the connection it is given. `on_foreign_change` is called, on the thread, when another process committed."""

    def __init__(
        self,
        database: Path,
        connection: sqlite3.Connection,
        turnstile: Turnstile,
        sockets: Path,
        on_foreign_change: Callable[[], None],
        traffic: Traffic | None = None,
    ) -> None:
        self._database = database
        self._traffic = traffic or Traffic()
        self._connection: sqlite3.Connection | None = _undoing_in_memory(connection)
        self._turnstile = turnstile
        self._sockets = sockets
        self._on_foreign_change = on_foreign_change
        self._seen_version = _data_version(connection)
        self._waiting: deque[Work] = deque()
        self._bell = threading.Event()
        self._probing = self._stopping = False
        self._turns = self._met_full = self._written_back = 0
        self._checkpointer = _Checkpointer(database, turnstile)
        self._thread: threading.Thread | None = None

    def submit(self, function: Callable[[Transaction], T]) -> asyncio.Future[T]:
        """The function's place in the next commit. Cancelling the future does not take it back."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((function, future))
        self._ring()
        return future

    def probe(self) -> None:
        """Ask the thread to look whether another process has committed."""
        self._probing = True
        self._ring()

    def stop(self) -> None:
        """Write what is waiting, then end the thread and close the connection. Blocks for as long."""
        self._stopping = True
        if self._thread is not None:
            self._bell.set()
            self._thread.join()
        self._checkpointer.stop()
        self._disconnect()

    def _ring(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="bullpen-writer", daemon=True)
            self._thread.start()
        self._bell.set()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            self._bell.wait()
            self._bell.clear()  # before looking: whatever is appended after the look rings again
            stopping = self._stopping  # before draining: everything submitted before the stop is still written
            if self._probing:
                self._probing = False
                with suppress(sqlite3.Error):  # the next write will say what is wrong
                    self._look_for_foreign_changes(self._connected())
            while self._waiting:
                self._take_turn()

    def _take_turn(self) -> None:
        arrived = len(self._waiting)
        taken: list[Work] = []
        outcomes: list[WorkOutcome] = []
        landed: list[Transaction] = []
        try:
            with self._turnstile.hold():
                connection = self._connected()
                self._tend(connection)
                connection.execute("BEGIN IMMEDIATE")
                self._look_for_foreign_changes(connection)
                self._run_group(connection, taken, outcomes, landed)
                connection.execute("COMMIT")
                changed = connection.total_changes
        except Exception as exc:
            self._disconnect()  # rolls back; a fresh connection is sure to be in no half state
            if is_full(exc) and self._met_full < FULL_ATTEMPTS - 1:
                # The log is at the end of its blocks. The next connection writes it back, so that it begins again.
                self._met_full += 1
                self._waiting.extendleft(reversed(taken))
                time.sleep(FULL_PAUSE)
                return
            self._met_full = 0
            self._traffic.note(SERVICE, "commit", RequestResult.FAILED)
            error = locked(self._database) if isinstance(exc, TurnstileTimeout) else translated(exc, self._database)
            futures = [outcome.future for outcome in outcomes]
            while len(futures) < arrived and self._waiting:  # those we could not even begin have waited long enough
                futures.append(self._waiting.popleft()[1])
            deliver(WorkOutcome(future, error=error) for future in futures)
            return
        self._met_full = 0
        self._traffic.note(SERVICE, "commit", RequestResult.OK)
        deliver(outcomes)
        self._send_wakes(landed)
        if changed - self._written_back > WRITTEN_BACK_AFTER:
            self._written_back = changed
            self._checkpointer.ask()

    def _tend(self, connection: sqlite3.Connection) -> None:
        """Now and then: see how much room there is, and keep free pages while there is some."""
        self._turns += 1
        if self._turns % TENDED_EVERY == 0:
            set_pace(connection, self._database.parent)
            if not reserve.is_low(self._database.parent):
                with suppress(sqlite3.Error):  # the next write will say what is wrong
                    reserve.add_free_pages(connection)

    def _run_group(
        self,
        connection: sqlite3.Connection,
        taken: list[Work],
        outcomes: list[WorkOutcome],
        landed: list[Transaction],
    ) -> None:
        end = time.monotonic() + GROUP_LASTS
        while self._waiting:
            function, future = self._waiting.popleft()
            taken.append((function, future))
            outcomes.append(WorkOutcome(future))  # at once, so that a lost group reaches this one too
            transaction = Transaction(connection, self._database)
            connection.execute("SAVEPOINT one")
            try:
                outcomes[-1] = WorkOutcome(future, function(transaction))
                landed.append(transaction)
            except Exception as exc:
                if not connection.in_transaction or is_full(exc):
                    raise  # SQLite has rolled back everything, as it may on a full disk: the group is lost
                connection.execute("ROLLBACK TO one")
                outcomes[-1] = WorkOutcome(future, error=translated(exc, self._database))
            connection.execute("RELEASE one")
            if time.monotonic() > end:
                return

    def _send_wakes(self, landed: list[Transaction]) -> None:
        # Once each, in order: a receiver looks at the records anyway.
        for name, payload in dict.fromkeys(wanted for transaction in landed for wanted in transaction.wakes):
            with suppress(ValueError):  # an id that cannot name a socket has no listener
                notify.send(self._sockets, name, payload)
        for payload in dict.fromkeys(payload for transaction in landed for payload in transaction.control):
            notify.broadcast(self._sockets, notify.CONTROL, payload)

    def _look_for_foreign_changes(self, connection: sqlite3.Connection) -> None:
        # data_version moves on this connection when any other one commits, and never by our own commits.
        version = _data_version(connection)
        if version != self._seen_version:
            self._seen_version = version
            self._on_foreign_change()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _undoing_in_memory(connect(self._database))
            self._seen_version = -1  # numbers of two connections do not compare: better one look too many
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
            self._written_back = 0


class _Checkpointer:
    """Writes the log back to the database while the writer goes on: within a commit, every beat would wait for it.

    The log begins again only once all of it is written back. So what was added meanwhile, which is little, follows
    within the turnstile; SQLite syncs the database only then, so most of that is done before.
    """

    def __init__(self, database: Path, turnstile: Turnstile) -> None:
        self._database = database
        self._turnstile = turnstile
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def ask(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="bullpen-checkpointer", daemon=True)
            self._thread.start()
        if self._asked.empty():
            self._asked.put(True)

    def stop(self) -> None:
        if self._thread is not None:
            self._stopping = True
            self._asked.put(False)
            self._thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._asked.get():
            with suppress(sqlite3.Error, TurnstileTimeout, OSError):  # the log grows, and SQLite does it in a commit
                if reserve.is_low(self._database.parent):
                    continue  # the log must begin again within each commit: this would be in its way
                connection = connection or connect(self._database)
                connection.execute(CHECKPOINT).fetchall()
                os.fdatasync(_descriptor(self._database))
                if not self._stopping:
                    with self._turnstile.hold(REST_WITHIN):
                        connection.execute(CHECKPOINT).fetchall()
        if connection is not None:
            connection.close()


@functools.cache
def _descriptor(database: Path) -> int:
    """Opened once and never closed: to close any descriptor of a file drops SQLite's locks on it in this process."""
    return os.open(database, os.O_RDONLY | os.O_CLOEXEC)


def _undoing_in_memory(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Keep in memory what a savepoint would restore: of a part of a batch of beats, SQLite writes those pages to a
    temporary file, which is two of five writes. A function is short, so the pages are few."""
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)
