"""Homes that cannot be used, on the real engine: every command prints a remedy and creates nothing."""

import fcntl
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import CommandLine

PROVISION = ("provision", "--run-id", "run-1", "--count", "1", "--json")
QUESTIONS = [PROVISION, ("status", "--json"), ("why", "i-1", "--json"), ("down", "--json"), ("refresh", "--json")]
PROGRAM = [sys.executable, "-c", "import sys; from bullpen.cli import main; sys.exit(main())"]


@pytest.mark.parametrize("command", QUESTIONS, ids=lambda command: command[0])
def test_a_home_that_is_a_file_is_a_configuration_error(bullpen: CommandLine, command: tuple[str, ...]) -> None:
    Path("home").write_text("mine")
    ran = bullpen("--home", "home", *command)
    assert ran.code == 2
    assert ran.answer["reason"].startswith("home: cannot be used as home")
    assert "--home" in ran.answer["remedy"]
    assert Path("home").read_text() == "mine"


@pytest.mark.parametrize("command", QUESTIONS, ids=lambda command: command[0])
def test_a_home_with_too_long_a_name_is_a_configuration_error(bullpen: CommandLine, command: tuple[str, ...]) -> None:
    ran = bullpen("--home", "x" * 300, *command)
    assert ran.code == 2
    assert "cannot be used as home" in ran.answer["reason"]
    assert bullpen.left_behind == []


@pytest.mark.parametrize("command", QUESTIONS, ids=lambda command: command[0])
def test_a_damaged_database_is_named_and_left_as_it_is(bullpen: CommandLine, command: tuple[str, ...]) -> None:
    Path("home").mkdir()
    Path("home/bullpen.db").write_bytes(b"not a database " * 500)
    ran = bullpen("--home", "home", *command)
    assert ran.code == 2
    assert ran.answer["reason"].startswith("home/bullpen.db: not a usable Bullpen database")
    assert Path("home/bullpen.db").read_bytes() == b"not a database " * 500


def test_the_database_of_another_program_is_not_touched(bullpen: CommandLine) -> None:
    Path("home").mkdir()
    with sqlite3.connect("home/bullpen.db") as foreign:
        foreign.execute("CREATE TABLE theirs (id)")
    foreign.close()
    before = Path("home/bullpen.db").read_bytes()
    assert bullpen("--home", "home", *PROVISION).code == 2
    assert Path("home/bullpen.db").read_bytes() == before


@pytest.mark.slow
def test_a_full_disk_asks_to_try_again_later(tmp_path: Path) -> None:
    """The limit on the size of files stands in for a full disk: the system refuses the write the same way."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [*PROGRAM, "--home", "home", *PROVISION]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, preexec_fn=limit, check=False)
    assert ran.returncode == 75
    assert "home/bullpen.db" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_home_that_stays_locked_asks_to_try_again_later(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bullpen.engines.sqlite.database import Database

    bullpen("--home", "home", "refresh")
    impatient = Database.open.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Database, "open", classmethod(lambda *given, **more: impatient(*given, **more | {"patience": 0.05}))
    )
    with open("home/db.lock", "a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.lockf(held, fcntl.LOCK_EX)
        ran = bullpen("--home", "home", *PROVISION)
    assert ran.code == 75
    assert "locked by another process" in ran.answer["reason"]
