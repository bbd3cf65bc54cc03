"""Programs of Debian that tests run: installed where this is Debian or Ubuntu and the tests run as root."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

INSTALLING_TAKES = 600.0  # seconds
LOCK = Path(tempfile.gettempdir()) / "bullpen-tests-debian-packages.lock"


def require(program: str, package: str = "") -> None:
    """Install the program if it is missing and BULLPEN_REQUIRE_ENGINES=1; skip the test where it cannot be run."""
    required = os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1"
    package = package or program
    if required and shutil.which(program) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with LOCK.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes, one installs
            if shutil.which(program) is None:
                quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
                _run(["apt-get", "-qq", "update"], quiet)
                _run(["apt-get", "-qq", "install", "--no-install-recommends", package], quiet)
    if shutil.which(program) is None:
        why = f"{program} is not installed: apt-get install {package}"
        pytest.fail(f"BULLPEN_REQUIRE_ENGINES=1, and {why}") if required else pytest.skip(why)


def _run(command: list[str], environ: Mapping[str, str]) -> None:
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=INSTALLING_TAKES)
    assert ran.returncode == 0, f"{' '.join(command)} failed: {ran.stderr[-500:]}"
