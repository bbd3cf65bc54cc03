"""A file system of a few megabytes, which a test may fill: a tmpfs, mounted for the test. Only root can mount one."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bullpen.engines.sqlite.notify import SHORT_ROOT


@contextmanager
def a_small_disk(megabytes: int = 48) -> Iterator[Path]:
    """Where it is mounted. Skip if it cannot be, or fail where all must be tested."""
    directory = Path(tempfile.mkdtemp(prefix="disk-", dir=SHORT_ROOT)).resolve()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "bullpen-test", str(directory)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = f"no file system can be mounted here: {done.stderr.strip()}"
            if os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1":
                pytest.fail(f"BULLPEN_REQUIRE_ENGINES=1, and {why}")
            pytest.skip(why)
        try:
            yield directory
        finally:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
    finally:
        directory.rmdir()


def fill(path: Path) -> None:
    """Write to a file until the disk has no block left, as a job does that does not care."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with suppress(OSError):
        for size in (1 << 20, 4096, 1):
            with suppress(OSError):
                while True:
                    os.write(handle, bytes(size))
    os.close(handle)
