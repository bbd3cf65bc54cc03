"""Prometheus and its promtool, from Debian's package: unpacked into the user's cache. To install it starts services.

`python tests/fakes/prometheus.py` fetches it beforehand.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SKIPPED = "SKIPPED ENGINES"  # as `aws_fixtures` has it: the last line of a run counts these
PACKAGE = "prometheus"
FETCHING_TAKES = 600.0  # seconds


class PrometheusMissing(Exception):
    """It cannot be fetched here; the message says why."""


def program(name: str) -> Path:
    """`prometheus` or `promtool`: of this machine, of the cache, or fetched into it where tests require it. Skips the
    test where there is none."""
    if found := shutil.which(name):
        return Path(found)
    required = os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1"
    try:
        return (fetched() if required else _cached()) / name
    except PrometheusMissing as exc:
        if required:
            pytest.fail(f"BULLPEN_REQUIRE_ENGINES=1, and {exc}")
        pytest.skip(f"{SKIPPED}: {exc}")


def fetched() -> Path:
    """The folder of the programs, fetched if it is not there."""
    target = _folder()
    if not target.exists():
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise PrometheusMissing(f"{PACKAGE} is missing: apt-get install {PACKAGE}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_suffix(".lock").open("w") as lock, tempfile.TemporaryDirectory(dir=target.parent) as aside:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes, one fetches
            if not target.exists():
                _run("apt-get", "-qq", "update", folder=aside)
                _run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", PACKAGE, folder=aside)
                (archive,) = Path(aside).glob("*.deb")
                _run("dpkg", "-x", str(archive), "unpacked", folder=aside)
                (Path(aside) / "unpacked").rename(target)  # whole or not there
    return target / "usr/bin"


def _cached() -> Path:
    if not _folder().exists():
        raise PrometheusMissing(f"{PACKAGE} is missing: apt-get install {PACKAGE}, or set BULLPEN_REQUIRE_ENGINES=1")
    return _folder() / "usr/bin"


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "bullpen" / "test-engines" / PACKAGE


def _run(*command: str, folder: str) -> None:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCHING_TAKES)
    if ran.returncode:
        raise PrometheusMissing(f"{' '.join(command)} failed: {ran.stderr.strip()[-500:]}")


if __name__ == "__main__":
    try:
        print(f"prometheus for the tests: {fetched()}")
    except PrometheusMissing as missing:
        print(f"no prometheus for the tests: {missing}", file=sys.stderr)
