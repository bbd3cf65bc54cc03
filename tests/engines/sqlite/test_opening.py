"""Opening a home: created, migrated once, and refused with a reason where it cannot be used."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bullpen.engines.sqlite import migrations, turnstile
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.migrations import FILE, load_scripts
from bullpen.engines.sqlite.turnstile import Turnstile
from bullpen.errors import ConfigError, Unavailable
from engines.sqlite.processes import a_line_of, a_process

pytestmark = pytest.mark.real_loop

OPEN = """
import sys, pathlib
from bullpen.engines.sqlite import migrations, turnstile
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.migrations import load_scripts
home, scripts = map(pathlib.Path, sys.argv[1:])
print("ready", flush=True)
sys.stdin.readline()
Database.open(home, load_scripts(scripts), patience=60)
print("open", flush=True)
"""

HANG_IN_MIGRATION = """
import sqlite3, sys, pathlib
from bullpen.engines.sqlite import migrations, turnstile
home, scripts = map(pathlib.Path, sys.argv[1:])

def connect(path, create=False):
    connection = turnstile.connect(path, create=create)
    connection.create_function("hang", 0, lambda: print("in the middle", flush=True) or sys.stdin.read())
    return connection

migrations.connect = connect
migrations.open_home(home, turnstile.Turnstile(home), migrations.load_scripts(scripts))
"""


def scripts_in(directory: Path, *scripts: str) -> list[Path]:
    directory.mkdir(exist_ok=True)
    for number, text in enumerate(scripts, start=1):
        (directory / ("schema.sql" if number == 1 else f"schema-{number}.sql")).write_text(text)
    return load_scripts(directory)


def version_and_tables(home: Path) -> tuple[int, list[str]]:
    connection = sqlite3.connect(home / FILE)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]
    connection.close()
    return version, tables


async def test_a_missing_home_is_made_for_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    async with Database.open(home, scripts_in(tmp_path / "s", "CREATE TABLE a (x);")):
        assert home.stat().st_mode & 0o777 == 0o700
        assert version_and_tables(home) == (1, ["a"])


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout


async def test_git_ignores_a_new_home_with_all_that_is_in_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    async with Database.open(tmp_path / ".bullpen"):
        (tmp_path / ".bullpen" / "secret").write_text("s3cret")
        assert git(tmp_path, "status", "--porcelain", "--untracked-files=all") == ""


async def test_a_directory_that_has_files_gets_no_gitignore(tmp_path: Path) -> None:
    (tmp_path / "Makefile").touch()
    async with Database.open(tmp_path):
        assert not (tmp_path / ".gitignore").exists()


@pytest.fixture
def open_home(tmp_path: Path) -> Iterator[Path]:
    """A home that others may look into, and a umask that would let them read what is in it."""
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    yield tmp_path
    os.umask(before)


def modes_in(home: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in home.iterdir() if file.is_file()}


async def test_in_a_home_that_others_can_read_the_files_are_for_their_owner_only(open_home: Path) -> None:
    async with Database.open(open_home) as db:
        await db.write(lambda tx: tx.execute("PRAGMA user_version"))
        modes = modes_in(open_home)
    names = ("bullpen.db", *(f"bullpen.db-{name}" for name in ("reserve", "shm", "spare", "wal")))
    ours = (*names, ".gitignore", "db.lock", "turn.lock")
    assert modes == dict.fromkeys(ours, 0o600)


async def test_a_file_made_by_a_process_that_was_killed_before_it_filled_it_is_filled(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    async with Database.open(tmp_path, scripts_in(tmp_path / "s", "CREATE TABLE a (x);")):
        assert version_and_tables(tmp_path) == (1, ["a"])


async def test_an_older_database_is_migrated_and_keeps_its_rows(tmp_path: Path) -> None:
    old = scripts_in(tmp_path / "s", "CREATE TABLE a (x);")
    async with Database.open(tmp_path, old) as db:
        await db.write(lambda tx: tx.execute("INSERT INTO a VALUES (7)"))
    new = scripts_in(tmp_path / "s", "CREATE TABLE a (x);", "ALTER TABLE a ADD y DEFAULT 1;")
    async with Database.open(tmp_path, new) as db:
        assert await db.read(lambda s: s.execute("SELECT x, y FROM a").fetchall()) == [(7, 1)]


async def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    scripts = scripts_in(tmp_path / "s", "CREATE TABLE a (x);", "CREATE TABLE b (x);")
    await Database.open(tmp_path, scripts).close()
    with pytest.raises(ConfigError, match="version 2, this program knows 1"):
        Database.open(tmp_path, scripts[:1])
    assert version_and_tables(tmp_path) == (2, ["a", "b"])


async def test_a_migration_that_fails_midway_leaves_the_old_version(tmp_path: Path) -> None:
    await Database.open(tmp_path, scripts_in(tmp_path / "s", "CREATE TABLE a (x);")).close()
    broken = scripts_in(tmp_path / "s", "CREATE TABLE a (x);", "CREATE TABLE b (x); CREATE TABLE a (x);")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        Database.open(tmp_path, broken)
    assert version_and_tables(tmp_path) == (1, ["a"])


async def test_a_migration_killed_midway_leaves_the_old_version_and_is_finished_by_the_next(tmp_path: Path) -> None:
    scripts_in(tmp_path / "s", "CREATE TABLE a (x);", "CREATE TABLE b (x); INSERT INTO b SELECT hang(); ")
    with a_process(HANG_IN_MIGRATION, tmp_path, tmp_path / "s") as process:
        assert a_line_of(process) == "in the middle"
        process.kill()
        process.wait()
    assert version_and_tables(tmp_path) == (1, ["a"])
    mended = scripts_in(tmp_path / "s", "CREATE TABLE a (x);", "CREATE TABLE b (x);")
    await Database.open(tmp_path, mended).close()
    assert version_and_tables(tmp_path) == (2, ["a", "b"])


@pytest.mark.slow
def test_of_processes_that_open_at_once_one_migrates_and_all_open(tmp_path: Path) -> None:
    scripts_in(tmp_path / "s", *(f"CREATE TABLE t{number:02} (x);" for number in range(1, 12)))
    arguments = (OPEN, tmp_path / "home", tmp_path / "s")
    with a_process(*arguments) as a, a_process(*arguments) as b, a_process(*arguments) as c, a_process(*arguments) as d:
        processes = (a, b, c, d)
        assert [a_line_of(process) for process in processes] == ["ready"] * 4
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [a_line_of(process) for process in processes] == ["open"] * 4
    assert version_and_tables(tmp_path / "home") == (11, [f"t{number:02}" for number in range(1, 12)])


def test_scripts_with_a_gap_are_a_mistake_of_the_program(tmp_path: Path) -> None:
    scripts_in(tmp_path, "CREATE TABLE a (x);", "CREATE TABLE b (x);")
    (tmp_path / "schema.sql").unlink()
    with pytest.raises(RuntimeError, match="without gaps"):
        load_scripts(tmp_path)


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(ConfigError, match="cannot be used as home"):
        Database.open(tmp_path / "home", [])


def test_a_home_that_is_not_writable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # a superuser may write anywhere
    with pytest.raises(ConfigError, match="not writable") as refused:
        Database.open(tmp_path, [])
    assert "--home" in refused.value.remedy


@pytest.mark.parametrize(
    "content", [b"this is not a database, but it is long enough" * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_damaged_file_is_refused_by_name_and_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ConfigError, match=FILE) as refused:
        Database.open(tmp_path, scripts_in(tmp_path / "s", "CREATE TABLE a (x);"))
    assert "backup" in refused.value.remedy
    assert (tmp_path / FILE).read_bytes() == content


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(ConfigError, match="another program"):
        Database.open(tmp_path, scripts_in(tmp_path / "s", "CREATE TABLE a (x);"))


def test_a_refused_file_is_closed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(ConfigError, match="another program") as refused:
        Database.open(tmp_path, scripts_in(tmp_path / "s", "CREATE TABLE a (x);"))
    opened = {os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}
    assert refused.tb is not None  # it keeps the frames: what is closed was not closed by the garbage collector
    assert str(tmp_path / FILE) not in opened


def test_a_home_whose_migration_is_held_up_is_unavailable(tmp_path: Path) -> None:
    scripts = scripts_in(tmp_path / "s", "CREATE TABLE a (x);")
    with Turnstile(tmp_path).hold(), pytest.raises(Unavailable, match="locked"):
        Database.open(tmp_path, scripts, patience=0.01)


def test_the_modules_shared_with_the_agent_need_nothing_else_of_bullpen() -> None:
    script = """
import sys
import bullpen.engines.sqlite.turnstile, bullpen.engines.sqlite.notify
print(sorted(name for name in sys.modules if name.startswith("bullpen.") and not name.startswith("bullpen.engines")))
"""
    with a_process(script) as process:
        assert a_line_of(process) == "[]"


async def test_a_process_that_looks_while_another_creates_the_tables_takes_them_for_no_other_program_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read that there is no version and no mark, and the tables are there when it counts them."""
    scripts = scripts_in(tmp_path / "scripts", "CREATE TABLE t (x)")
    home = tmp_path / "home"
    home.mkdir()
    with closing(sqlite3.connect(home / FILE)) as first:
        first.execute("PRAGMA journal_mode = WAL")

    class Overtaken(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            found = super().execute(sql, *parameters)
            if sql == "PRAGMA application_id" and not made:
                made.append(home)
                monkeypatch.setattr(migrations, "connect", turnstile.connect)
                migrations.open_home(home, Turnstile(home), scripts).close()
            return found

    made: list[Path] = []
    monkeypatch.setattr(migrations, "connect", lambda path: sqlite3.connect(path, factory=Overtaken))
    migrations.open_home(home, Turnstile(home), scripts).close()
    assert made
    assert version_and_tables(home)[0] == 1
