"""What the command line costs before it does anything, as modules loaded: times are for the benchmark."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"asyncio", "click", "msgspec", "rich", "sqlite3", "json", "typing", "dataclasses", "tomllib", "difflib"}
PROGRAM = "import sys; from bullpen.cli import main; sys.argv[1:] = {arguments!r}; code = main()"
LOADED = "; print(*sys.modules, file=sys.stderr); sys.exit(code)"


def modules_of(*arguments: str, folder: Path) -> set[str]:
    code = PROGRAM.format(arguments=list(arguments)) + LOADED
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert ran.returncode == 0, ran.stderr
    return {name.partition(".")[0] for name in ran.stderr.split()}


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_load_no_library(argument: str, tmp_path: Path) -> None:
    assert modules_of(argument, folder=tmp_path) & HEAVY == set()


@pytest.mark.slow
def test_the_help_of_a_command_opens_no_engine(tmp_path: Path) -> None:
    assert modules_of("provision", "--help", folder=tmp_path) & {"rich", "sqlite3", "difflib"} == set()


@pytest.mark.slow
def test_the_settings_are_shown_without_an_event_loop(tmp_path: Path) -> None:
    assert modules_of("config", "show", folder=tmp_path) & {"asyncio", "rich", "sqlite3"} == set()
