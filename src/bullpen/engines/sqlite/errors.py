"""Translates SQLite's errors into Bullpen's: the file, what happened, what to do."""

import sqlite3
from pathlib import Path

from bullpen.errors import ConfigError, Unavailable

PRIMARY = 0xFF  # the low byte of an extended result code is the primary one


def translated(exc: Exception, database: Path) -> Exception:
    """The error to raise for `exc`; `exc` itself if it is a fault of the program, not of the world."""
    if not isinstance(exc, sqlite3.Error):
        return exc
    match getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & PRIMARY:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return locked(database)
        case sqlite3.SQLITE_FULL:
            return Unavailable(
                f"{database}: the disk is full; nothing was written",
                remedy=f"Free space on the file system of {database.parent}, then try again.",
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
            return Unavailable(
                f"{database}: the system failed to read or write it ({exc})",
                remedy=f"Check the disk, its free space and the limits of the process for {database.parent}.",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(database, str(exc))
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return ConfigError(
                f"{database}: cannot be opened for writing ({exc})",
                remedy=f"Give this user write access to {database.parent} and the files in it, or use another home.",
            )
    return exc


def is_full(exc: Exception) -> bool:
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return isinstance(exc, sqlite3.Error) and code & PRIMARY == sqlite3.SQLITE_FULL


def low(database: Path) -> Unavailable:
    return Unavailable(
        f"{database.parent}: the disk is full or nearly full; no new work is started, and nothing was written",
        remedy=f"Free space on the file system of {database.parent}; `bullpen release`, `refresh` and `down` still "
        "work, and free what jobs have left. With local.work-dir jobs fill another file system.",
    )


def locked(database: Path) -> Unavailable:
    return Unavailable(
        f"{database}: locked by another process for too long",
        remedy="Try again; if it stays, look for a stopped bullpen process or another program that has the file open.",
    )


def damaged(database: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{database}: not a usable Bullpen database ({why})",
        remedy=f"Restore it from a backup, or move {database.name}* away: Bullpen then starts with an empty pool.",
    )
