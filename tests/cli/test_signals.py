"""Signals to the real program: the first asks it to stop, the second ends it, and both are answered."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# Counts what the command line loads and sends itself a signal with the given one of these: a moment that can be named.
EARLY = """
import os, sys
from bullpen.cli import main
number, left = int(sys.argv.pop(1)), int(sys.argv.pop(1))
def count(event, details):
    global left
    left -= event == "import"
    if event == "import" and left == 0:
        os.kill(os.getpid(), number)
sys.addaudithook(count)
code = main()
print(-left, file=sys.stderr)
sys.exit(code)
"""
PROVISION = ("provision", "--run-id", "run-1", "--count", "1", "--json")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the command line in a mode of `slow_pool.py`; returns when it waits."""
    started: list[subprocess.Popen[str]] = []
    script = Path(__file__).with_name("slow_pool.py")

    def start(mode: str, *arguments: str) -> "subprocess.Popen[str]":
        environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
        pipe = subprocess.PIPE
        command = [sys.executable, str(script), mode, *arguments]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, env=environ)
        started.append(process)
        assert process.stderr
        assert "waiting" in process.stderr.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_provision_settle_and_answer(start: Start, number: signal.Signals) -> None:
    process = start("obedient", *PROVISION)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert json.loads(out)["reason"] == "asked to stop"
    assert "Traceback" not in err


def test_a_second_signal_ends_it_at_once_with_an_answer(start: Start) -> None:
    process = start("deaf", *PROVISION)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert "stopping" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert json.loads(out)["state"] == "failed"
    assert "bullpen release" in err


def test_a_signal_ends_a_command_that_cannot_stop_by_itself(start: Start) -> None:
    process = start("deaf", "status", "--json")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert json.loads(out) == {
        "state": "failed",
        "cause": "interrupted",
        "reason": "interrupted",
        "remedy": "Nothing is lost. Run the command again.",
    }
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_work_begins_also_gets_an_answer(start: Start, number: signal.Signals) -> None:
    process = start("loading", *PROVISION)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert json.loads(out)["state"] == "failed"
    assert "Traceback" not in err


def early(folder: Path, number: signal.Signals, moment: int) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
    command = [sys.executable, "-c", EARLY, str(int(number)), str(moment), "config", "show", "--json"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ, timeout=120, check=False)


def test_a_signal_while_the_program_loads_is_one_line_and_one_answer(tmp_path: Path) -> None:
    never = early(tmp_path, signal.SIGINT, 0)
    assert never.returncode == 0, never.stderr
    loaded = int(never.stderr)
    assert loaded > 50
    moments = {1, 2, 3, *range(4, loaded, loaded // 8), loaded}
    for number, moment in enumerate(sorted(moments)):
        ran = early(tmp_path, (signal.SIGINT, signal.SIGTERM)[number % 2], moment)
        assert ran.returncode == 130, (moment, ran)
        assert "Traceback" not in ran.stderr, (moment, ran)
        assert ran.stderr.startswith("bullpen: error: interrupted\n"), (moment, ran)
        assert json.loads(ran.stdout)["state"] == "failed", (moment, ran)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_work_does_not_change_the_answer(start: Start, number: signal.Signals) -> None:
    process = start("answering", *PROVISION)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (1, "")
    assert json.loads(out)["reason"] == "asked to stop"


def test_a_second_signal_after_the_work_ends_the_process_although_the_answer_is_not_read(start: Start) -> None:
    process = start("answering", *PROVISION)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
