"""Set-up that takes long says what it does, how long it took, and why it failed."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "tools/elapsed.py"


def elapsed(*command: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, str(SCRIPT), "installing", *command]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_without_a_terminal_it_prints_a_line_before_and_one_after() -> None:
    ran = elapsed("true")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.fullmatch(r"installing\ninstalling: done after \d+ s\n", ran.stdout)


def test_a_command_that_fails_is_shown_with_its_output_and_exit_code() -> None:
    ran = elapsed("sh", "-c", "echo no such package; exit 3")
    assert ran.returncode == 3
    assert "installing: failed with exit code 3 after" in ran.stdout
    assert ran.stderr == "no such package\n"


def test_on_a_terminal_one_line_counts_the_seconds() -> None:
    mine, its = pty.openpty()
    process = subprocess.Popen([sys.executable, str(SCRIPT), "installing", "sleep", "1.2"], stdout=its)
    os.close(its)
    seen = b""
    with suppress(OSError):  # the terminal is closed at its end
        while part := os.read(mine, 4096):
            seen += part
    os.close(mine)
    assert process.wait(60) == 0
    assert re.search(rb"\rinstalling \.\.\. 1 s", seen)
    assert seen.count(b"\n") == 1
