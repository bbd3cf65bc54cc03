"""The installed program and where its output goes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-c", "import sys; from bullpen.cli import main; sys.exit(main())"]
SHORT = ["token", "create", "--scope", "read", "--json"]
ANSWERS = pytest.mark.parametrize("command", [["config", "show"], SHORT], ids=["long", "short"])


@ANSWERS
def test_a_reader_that_goes_away_leaves_no_traceback(tmp_path: Path, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [*PROGRAM, *command], stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, "")


@ANSWERS
def test_an_answer_that_cannot_be_written_is_an_error(tmp_path: Path, command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [*PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
        )
    assert ran.returncode == 1
    assert ran.stderr == (
        "bullpen: error: stdout: cannot be written (No space left on device)\n"
        "  → The work is done; only the output is lost.\n"
    )


def test_the_exit_code_reaches_the_caller(tmp_path: Path) -> None:
    ran = subprocess.run([*PROGRAM, "provision"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")


def test_output_works_on_a_terminal_that_has_only_ascii(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    show = [*PROGRAM, "config", "show", "--set", "agent.pre-runner-script=→"]
    ran = subprocess.run(show, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\\u2192" in ran.stdout
