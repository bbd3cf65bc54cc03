"""A fair lock among the processes that write one SQLite database, and how all of them connect to it.

SQLite's own busy handler sleeps and tries again, so under load a writer that sleeps loses: some starve for seconds.
Two file locks make an orderly line instead:

    lock `turn` ── lock `db` ── unlock `turn` ── BEGIN IMMEDIATE … COMMIT ── unlock `db`
         │             │
         │             └ at most one waits here: the next
         └ all others wait here

The locks are flock(2), which belongs to an open file. fcntl(2) locks belong to the process: two databases of one
process would not exclude each other, and closing any descriptor of the file would drop the lock of all. The kernel
frees a flock when its holder dies. Each attempt opens the files afresh, so nothing is shared between threads, and a
release unlocks explicitly, so a child forked meanwhile does not prolong the hold.

Standard library only: the agent imports this too.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bullpen.engines.sqlite import reserve

PATIENCE = 5.0  # seconds; a hold lasts milliseconds, so a wait this long is for a stopped process
BUSY_TIMEOUT = 5.0  # seconds; only a net: within the turnstile only a checkpoint on close is in the way
CACHED_STATEMENTS = 256
CACHE_KIB = 64 * 1024  # at most; a large pool whose pages do not fit is read from the file again and again
CHECKPOINT_PAGES = 4000  # 16 MB of log, four times SQLite's own: heartbeats rewrite the same pages over and over


class TurnstileTimeout(Exception):
    """The turn did not come in time; nothing is held."""


class Turnstile:
    """The line before one home's database. Not reentrant; every thread may use the same one."""

    def __init__(self, home: Path, patience: float = PATIENCE) -> None:
        self._home = home
        self._patience = patience
        self._left: _Place | None = None
        self._mutex = threading.Lock()

    @contextmanager
    def hold(self, timeout: float | None = None) -> Iterator[None]:
        """Wait for the turn, hold it for the block. Raise TurnstileTimeout if it does not come in time."""
        place = self._enter(self._patience if timeout is None else timeout)
        try:
            yield
        finally:
            place.leave()

    def _enter(self, timeout: float) -> "_Place":
        with self._mutex:
            place, self._left = self._left, None
        if place is None or not place.rejoin():
            place = _Place(self._home)
            if place.pass_at_once():
                return place
            place.line_up()
        if not place.wait(timeout):
            # The place stays in line for the next attempt: a holder that is stopped for an hour costs one thread.
            with self._mutex:
                self._left = place
            raise TurnstileTimeout(f"{self._home}: another process holds the database for more than {timeout:g} s")
        return place


class _Place:
    """One attempt to pass: two open files and, once it has to wait, a thread blocked in the kernel's queue.

    A blocking flock keeps the order of arrival but knows no time-out, and polling would lose the order.
    So a thread blocks, and the caller waits for the thread.
    """

    def __init__(self, home: Path) -> None:
        self._turn = _open(home / "turn.lock")
        try:
            self._db = _open(home / "db.lock")
        except OSError:
            os.close(self._turn)
            raise
        self._mutex = threading.Lock()
        self._passed = threading.Event()
        self._wanted = True

    def pass_at_once(self) -> bool:
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(self._db, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False  # perhaps with `turn` in hand: then this place is next, and keeps it
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        return True

    def line_up(self) -> None:
        threading.Thread(target=self._stand_in_line, name="bullpen-turnstile", daemon=True).start()

    def _stand_in_line(self) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        fcntl.flock(self._db, fcntl.LOCK_EX)
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        with self._mutex:
            self._passed.set()
            if not self._wanted:
                self.leave()

    def wait(self, timeout: float) -> bool:
        if self._passed.wait(timeout):
            return True
        with self._mutex:  # the turn may come between the time-out and here: then the place has it after all
            self._wanted = self._passed.is_set()
            return self._wanted

    def rejoin(self) -> bool:
        """Want the place again; False if the turn came and went meanwhile."""
        with self._mutex:
            self._wanted = not self._passed.is_set()
            return self._wanted

    def leave(self) -> None:
        fcntl.flock(self._db, fcntl.LOCK_UN)
        os.close(self._db)
        os.close(self._turn)


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """A connection with Bullpen's settings, in autocommit: transactions are begun by hand, within the turnstile.

    It may travel between threads, one at a time. Unless `create`, a missing file is an error, never an empty database.
    WAL is a property of the file and set when it is created.
    """
    if create:
        _make_private(path)
    reserve.prepare(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = {-CACHE_KIB}")
        set_pace(connection, path.parent)
    except sqlite3.Error:
        with suppress(sqlite3.Error):
            connection.close()
        raise
    return connection


def set_pace(connection: sqlite3.Connection, home: Path) -> None:
    """How often the log is written back: rarely; where the disk is full, before the log reaches the end of what it
    has, and at once, for it may have reached that already."""
    is_low = reserve.is_low(home)
    pages = reserve.CHECKPOINT_PAGES_WHEN_LOW if is_low else CHECKPOINT_PAGES
    connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
    if is_low:
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _make_private(path: Path) -> None:
    """An empty file for its owner only, if there is none: SQLite would go by the umask. Its log gets the same mode."""
    # Never the file of a database in use: closing any descriptor of it drops the locks of this process's connections.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
