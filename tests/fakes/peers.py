"""Programs of others that our code meets in tests, compiled from their sources.

    go_client   GitHub's own client of scale sets, the Go module github.com/actions/scaleset, in a small program around
                its listener
    emulator    an independent emulator of the service of scale sets, of the Rust crate `scaleset`
    act         executes workflows, the Go module github.com/nektos/act

Built once, in pinned versions, into the user's cache; `python tests/fakes/peers.py` builds beforehand. Go compares what
it fetches with its checksum database, and for `go_client` also with go.sum.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

CRATE, CRATE_VERSION = "scaleset", "0.1.0"
DRIVER = Path(__file__).parent / "scale_sets/go_client"
SOURCES = ("main.go", "go.mod", "go.sum")
ACT = "github.com/nektos/act@v0.2.89"
BUILDING_TAKES = 3600.0  # seconds; two minutes on an idle machine, twenty on a busy one
RUST = "install Rust 1.88 or newer (https://rustup.rs), then `python tests/fakes/peers.py`"
GO = "install Go 1.25 or newer (https://go.dev/dl), then `python tests/fakes/peers.py`"


class PeerMissing(Exception):
    """A program cannot be built here; the message says why, and what to do."""


def emulator() -> Path:
    """The program, built if it is not there."""

    def build(folder: Path) -> None:
        cargo = _tool("cargo", Path.home() / ".cargo/bin/cargo", f"to build the emulator of scale sets: {RUST}")
        wanted = [CRATE, "--version", CRATE_VERSION, "--features", "testing", "--bin", "scaleset-emulator"]
        # Not optimised: it is built in a third of the time, and serves a test as fast.
        _run([cargo, "install", *wanted, "--locked", "--debug", "--root", str(folder)], folder.parent)

    return _built("scaleset-emulator", f"{CRATE} {CRATE_VERSION}", build) / "bin/scaleset-emulator"


def go_client() -> Path:
    """The program, built if it is not there."""

    def build(folder: Path) -> None:
        go = _tool("go", Path("/usr/local/go/bin/go"), f"to build GitHub's client of scale sets: {GO}")
        folder.mkdir()
        for name in SOURCES:
            shutil.copy(DRIVER / name, folder)
        _run([go, "build", "-trimpath", "-o", "go_client", "."], folder, GOFLAGS="-mod=readonly -buildvcs=false")

    content = "\0".join((DRIVER / name).read_text() for name in SOURCES)
    return _built("scaleset-go", content, build) / "go_client"


def act() -> Path:
    """The program, built if it is not there."""

    def build(folder: Path) -> None:
        go = _tool("go", Path("/usr/local/go/bin/go"), f"to build act: {GO}")
        _run([go, "install", "-trimpath", ACT], folder.parent, GOBIN=str(folder), GOFLAGS="-mod=mod")

    return _built("act", ACT, build) / "act"


def _tool(name: str, usual: Path, purpose: str) -> str:
    found = shutil.which(name) or (str(usual) if usual.exists() else None)
    if found is None:
        raise PeerMissing(f"no {name} on the PATH {purpose}")
    return found


def _built(name: str, pinned: str, build: Callable[[Path], None]) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bullpen" / "test-engines"
    target = cache / f"{name}-{hashlib.sha256(pinned.encode()).hexdigest()[:16]}"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{name}.lock").open("w") as lock, tempfile.TemporaryDirectory(dir=cache) as aside:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes that build at once, one does
            if not target.exists():
                build(Path(aside) / "made")
                (Path(aside) / "made").rename(target)  # whole or not there
    return target


def _run(command: Sequence[str], folder: Path, **environ: str) -> None:
    shown, env = " ".join(command), {**os.environ, **environ}
    try:
        ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=BUILDING_TAKES)
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"not done within {BUILDING_TAKES:.0f} s: {shown}") from None
    if ran.returncode:
        raise PeerMissing(f"{shown} failed: {(ran.stderr or ran.stdout).strip()[-500:]}")


if __name__ == "__main__":
    try:
        print(f"programs of others for the tests: {go_client()}, {emulator()}, {act()}")
    except PeerMissing as exc:
        sys.exit(str(exc))
