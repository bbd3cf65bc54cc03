"""A cloud as a process of its own, for as long as a test or a session of tests needs it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fakes.ec2.control import Control
from fakes.ec2.leftovers import end_leftovers

TESTS = Path(__file__).parents[2]
ENDS_WITHIN = 120.0  # seconds, in which it ends its instances too


@contextmanager
def running() -> Iterator[Control]:
    """Start it, and end it with everything that it started, even when it was killed meanwhile."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BULLPEN_", "AWS_"))}
    environment["PYTHONPATH"] = f"{TESTS}{os.pathsep}{TESTS.parent / 'src'}"
    command = [sys.executable, "-m", "fakes.ec2"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        assert process.stdin
        assert process.stdout
        port = process.stdout.readline().strip()
        assert port, "the cloud did not start; it says why above"
        control = Control(f"http://127.0.0.1:{port}", process.pid)
        try:
            yield control
        finally:
            process.stdin.close()
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
            for folder in control.folders:
                end_leftovers(folder)
