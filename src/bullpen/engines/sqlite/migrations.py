"""Opening a home: the directory, the file, and the schema brought up to the version this program knows.

`schema.sql` makes version 1, `schema-2.sql` turns it into version 2, and so on; none is edited once released. The
version of a file is its `user_version`. Each script runs in one transaction with the change of version, under the
turnstile: of many processes one migrates, and one that is killed leaves the version from before.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bullpen.engines.sqlite.errors import damaged, locked, translated
from bullpen.engines.sqlite.reserve import add_free_pages, has_few_free_pages, is_low, prepare
from bullpen.engines.sqlite.turnstile import Turnstile, TurnstileTimeout, connect
from bullpen.errors import ConfigError

FILE = "bullpen.db"
APPLICATION_ID = 0x62756C6C  # "bull": distinguishes our file from other SQLite databases
SCRIPTS = Path(__file__).parent


def load_scripts(directory: Path = SCRIPTS) -> list[Path]:
    """The scripts in order; the last one's number is the version of the program."""
    numbered = {int(script.stem.partition("-")[2] or 1): script for script in directory.glob("schema*.sql")}
    if sorted(numbered) != list(range(1, len(numbered) + 1)):
        raise RuntimeError(f"{directory}: scripts must be numbered from 1 without gaps, found {sorted(numbered)}")
    return [numbered[number] for number in sorted(numbered)]


def open_home(home: Path, turnstile: Turnstile, scripts: Sequence[Path]) -> sqlite3.Connection:
    """A connection to the home's database, its schema current. Creates what is missing.

    Raise ConfigError if the home cannot be used or the file is damaged, foreign or newer; Unavailable if it is locked.
    """
    _make_home(home)
    database = home / FILE
    try:
        if database.exists():
            with _closed_on_error(connect(database)) as connection:
                is_current = _version(connection, database, len(scripts)) == len(scripts) > 0
                if is_current and (is_low(home) or not has_few_free_pages(connection)):
                    return connection  # the everyday case needs no lock
            connection.close()
        with turnstile.hold():
            _keep_out_of_git(home)
            with _closed_on_error(connect(database, create=True)) as connection:
                _migrate(connection, database, scripts)
                if not is_low(home):
                    with suppress(sqlite3.Error):  # without them it works as well, until the disk is full
                        add_free_pages(connection)
                prepare(database)  # the log that SQLite has just made, too
                return connection
    except TurnstileTimeout as exc:
        raise locked(database) from exc
    except sqlite3.Error as exc:
        raise translated(exc, database) from exc
    except OSError as exc:
        raise _unusable(home, exc.strerror or str(exc)) from exc


def _make_home(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise _unusable(home, exc.strerror or str(exc)) from exc
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(home, "not writable")


def _keep_out_of_git(home: Path) -> None:
    """A new home, which will have secrets, belongs to no project whose work tree it is in. A directory that has other
    files may be the work tree itself: it is left alone."""
    if all(path.suffix == ".lock" for path in home.iterdir()):
        file = os.open(home / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w") as opened:
            opened.write("*\n")


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """An error closes the connection, which rolls back what is open."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _migrate(connection: sqlite3.Connection, database: Path, scripts: Sequence[Path]) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # Read again: the process before us may have migrated already.
    for number in range(_version(connection, database, len(scripts)) + 1, len(scripts) + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{scripts[number - 1].read_text()}\n;"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}; COMMIT;"
        )


def _version(connection: sqlite3.Connection, database: Path, known: int) -> int:
    connection.execute("BEGIN")  # one snapshot: another process may be creating the tables at this moment
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # reads and checks the schema
    finally:
        if connection.in_transaction:  # some errors have ended it
            connection.execute("ROLLBACK")
    if application != APPLICATION_ID and (version or tables):
        raise damaged(database, "another program created it")
    if version > known:
        raise ConfigError(
            f"{database}: its schema is version {version}, this program knows {known}",
            remedy="Use the newer bullpen that wrote it, or another home.",
        )
    return int(version)


def _unusable(home: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{home}: cannot be used as home ({why})",
        remedy="Name a directory that this user can write to, with --home or BULLPEN_HOME.",
    )
