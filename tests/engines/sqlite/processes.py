"""Real processes for the tests of locks, wakes and forks."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def a_process(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that talks over its pipes; killed at the end of the block, if it still lives."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        with suppress(BrokenPipeError):
            process.communicate()


def a_line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
