"""Room that a database keeps for itself: what gives back and ends must be written even when a job has filled the disk.

    bullpen.db           has free pages: what is written down at the end needs some, and the file need not grow
    bullpen.db-wal       SQLite's log has blocks of its own from the start: a commit needs no new ones
    bullpen.db-reserve   the same file by another name: SQLite removes its log with the last connection, and the blocks
                         stay reserved. The next connection links it back into place
    bullpen.db-spare     is removed when the first connection to a database needs a few blocks more, for bullpen.db-shm

Freeing a file when the disk is full would not do: a job that goes on writing takes the blocks first.

SQLite ignores what stands behind the end of its log, and a log whose header is no header: it is empty. A reserve is
emptied so, and linked, only under its lock, while there is no log and no other name for it. So no log in
use is emptied, and no connection meets old pages.

New work is not begun while little room is left: see `is_low`.

Standard library only: the agent imports this too.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PAGE = 4096
FRAME = PAGE + 24  # a page in the log, with its header
LOG_HEADER = 32
LOG_PAGES = 1000
"""Pages of log that are kept. A commit writes tens of them; taking down a pool of a hundred, some hundreds."""
LOG_BYTES = (LOG_HEADER + LOG_PAGES * FRAME) // PAGE * PAGE
CHECKPOINT_PAGES_WHEN_LOW = 400
"""Of log that is written back to the database, so that the log begins again before it reaches its end."""
FREE_PAGES = 256  # that a database is given
FEWEST_FREE_PAGES = 128  # with fewer it is given more
SPARE_BYTES = 256 * 1024
ROOM = 16 * 1024 * 1024
"""Bytes that must be free on the file system for new work to begin."""
LOCK_WITHIN = 0.2  # seconds; its holder needs a millisecond, unless it is stopped


def room(directory: Path) -> int:
    """Bytes that this user may still write there."""
    found = os.statvfs(directory)
    return found.f_frsize * (found.f_bfree if os.geteuid() == 0 else found.f_bavail)


def is_low(directory: Path) -> bool:
    """Whether the file system has too little room for new work. False if that cannot be known."""
    try:
        return room(directory) < ROOM
    except OSError:
        return False


def prepare(database: Path) -> None:
    """See to it that the database has its log, with blocks, before a connection needs it. What cannot be done is left:
    then SQLite makes a log as it can."""
    log = _beside(database, "wal")
    if _size(database) == 0:
        return  # there is no database yet
    with suppress(OSError):
        if _size(log) < LOG_BYTES:
            with _locked(_beside(database, "reserve")) as reserve:
                if reserve is not None:
                    _provide(reserve, _beside(database, "reserve"), log)
    with suppress(OSError):
        _keep_spare(database)


def add_free_pages(connection: sqlite3.Connection) -> None:
    """Give the database free pages if it has few, and write them to the file. Raise sqlite3.Error if the disk is full.

    Within the turnstile. Killed on the way, it leaves pages that are not free yet, and frees them the next time.
    """
    if not has_few_free_pages(connection):
        return
    if connection.execute("DELETE FROM slack").rowcount == 0:
        connection.execute("INSERT INTO slack (filler) VALUES (zeroblob(?))", (FREE_PAGES * PAGE,))
        connection.execute("DELETE FROM slack")
    # Only the file has blocks: until then the pages are in the log.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def has_few_free_pages(connection: sqlite3.Connection) -> bool:
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(free < FEWEST_FREE_PAGES)


def _provide(reserve: int, name: Path, log: Path) -> None:
    """With the lock in hand."""
    if _is_same(reserve, log):
        _allocate(reserve)  # in use: it only grows
        return
    if log.exists():
        # SQLite made it itself, when there was no reserve yet or an older Bullpen connected: it becomes the reserve.
        adopted = name.with_name(f"{name.name}.new")
        adopted.unlink(missing_ok=True)
        os.link(log, adopted)
        os.replace(adopted, name)
        with open(log, "r+b") as file:
            _allocate(file.fileno())
        return
    _allocate(reserve)
    os.pwrite(reserve, bytes(LOG_HEADER), 0)
    os.fdatasync(reserve)
    with suppress(FileExistsError):  # SQLite was faster
        os.link(name, log)


@contextmanager
def _locked(name: Path) -> Iterator[int | None]:
    """The reserve, open and locked for the block; None if another process has it for too long."""
    give_up = time.monotonic() + LOCK_WITHIN
    while True:
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same(handle, name):
                pass  # replaced since it was opened
            # In this order: the last connection of another process may remove the log meanwhile.
            elif not _is_same(handle, _log_of(name)) and os.fstat(handle).st_nlink > 1:
                name.unlink()  # its other name was moved away with a log that may be needed: this one is left alone
            else:
                yield handle
                return
        except BlockingIOError:
            if time.monotonic() >= give_up:
                yield None
                return
            time.sleep(0.005)
        finally:
            os.close(handle)


def _allocate(handle: int) -> None:
    with suppress(OSError):  # too late: the disk is full. What there is has to do
        if os.fstat(handle).st_size < LOG_BYTES:
            os.posix_fallocate(handle, 0, LOG_BYTES)


def _keep_spare(database: Path) -> None:
    """Make the spare while there is room, and spend it on the first connection when there is none."""
    spare = _beside(database, "spare")
    if is_low(database.parent):
        if not _beside(database, "shm").exists():
            spare.unlink(missing_ok=True)
    elif not spare.exists():
        with open(os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, SPARE_BYTES)


def _beside(database: Path, what: str) -> Path:
    return database.with_name(f"{database.name}-{what}")


def _log_of(reserve: Path) -> Path:
    return reserve.with_name(f"{reserve.name.removesuffix('-reserve')}-wal")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False
