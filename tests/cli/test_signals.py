"""Signals to the real program: the first asks it to stop, the second ends it, and both are answered."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["reason"] == "asked to stop"
    assert "Traceback" not in err


def test_a_second_signal_ends_it_at_once_with_an_answer(start: Start) -> None:
    process = start("deaf", *PROVISION)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert "stopping" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["state"] == "failed"
    assert "bullpen release" in err


def test_a_signal_ends_a_command_that_cannot_stop_by_itself(start: Start) -> None:
    process = start("deaf", "status", "--json")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out) == {"state": "failed", "reason": "interrupted", "remedy": "Nothing is lost: run it again."}
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_work_begins_is_answered_too(start: Start, number: signal.Signals) -> None:
    process = start("loading", *PROVISION)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["state"] == "failed"
    assert "Traceback" not in err
