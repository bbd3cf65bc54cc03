"""Programs of others that our code meets in tests, compiled from their sources.

    go_client   GitHub's own client of scale sets, the Go module github.com/actions/scaleset, in a small program around
                its listener
    emulator    an independent emulator of the service of scale sets, of the Rust crate `scaleset`
    act         executes workflows, the Go module github.com/nektos/act
    gitea       a CI server, the Go module code.gitea.io/gitea, without its web pages' scripts and styles
    gitea_runner    the runner of Gitea, the Go module gitea.com/gitea/runner

Built once, in pinned versions, into the user's cache; `python tests/fakes/peers.py` builds beforehand. Go compares what
it fetches with its checksum database, and for all but `act` also with go.sum.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

CRATE, CRATE_VERSION = "scaleset", "0.1.0"
DRIVER = Path(__file__).parent / "scale_sets/go_client"
SOURCES = ("main.go", "go.mod", "go.sum")
ACT = "github.com/nektos/act@v0.2.89"
GITEA, GITEA_VERSION = "code.gitea.io/gitea", "1.26.2"
GITEA_TAGS = "sqlite sqlite_unlock_notify"
GITEA_READS = ("options", "public", "templates")  # in the folder that its setting STATIC_ROOT_PATH names
RUNNER, RUNNER_VERSION = "gitea.com/gitea/runner", "1.0.6"
AT_ONCE = "-p=2"  # packages that Go compiles at once: Gitea has thousands, and each takes a processor
BUILDING_TAKES = 3600.0  # seconds; two minutes on an idle machine (Gitea five), twenty on a busy one
RUST = "install Rust 1.88 or newer (https://rustup.rs), then `python tests/fakes/peers.py`"
GO_UNPACKED = Path("/usr/local/go/bin/go")  # where Go's own instructions put it
GO = "install Go 1.25 or newer (https://go.dev/dl), then `python tests/fakes/peers.py`"
NEWER_GO = GO.replace("1.25", "1.26.3")
GIT = "install git, then `python tests/fakes/peers.py`"


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
        go = _tool("go", GO_UNPACKED, f"to build GitHub's client of scale sets: {GO}")
        folder.mkdir()
        for name in SOURCES:
            shutil.copy(DRIVER / name, folder)
        _run([go, "build", "-trimpath", "-o", "go_client", "."], folder, GOFLAGS="-mod=readonly -buildvcs=false")

    content = "\0".join((DRIVER / name).read_text() for name in SOURCES)
    return _built("scaleset-go", content, build) / "go_client"


def act() -> Path:
    """The program, built if it is not there."""

    def build(folder: Path) -> None:
        go = _tool("go", GO_UNPACKED, f"to build act: {GO}")
        _run([go, "install", "-trimpath", ACT], folder.parent, GOBIN=str(folder), GOFLAGS="-mod=mod")

    return _built("act", ACT, build) / "act"


def gitea() -> Path:
    """The folder of the program `gitea`, and of the files that it reads; built if it is not there."""
    if shutil.which("git") is None:
        raise PeerMissing(f"no git on the PATH for Gitea to keep repositories with: {GIT}")

    def build(folder: Path) -> None:
        named = f'-X "main.Version={GITEA_VERSION}" -X "main.Tags={GITEA_TAGS}"'
        source = _compiled(f"{GITEA}@v{GITEA_VERSION}", folder / "gitea", named, "-tags", GITEA_TAGS)
        for name in GITEA_READS:
            (source / name).rename(folder / name)

    return _built("gitea", f"{GITEA} {GITEA_VERSION} {GITEA_TAGS}", build)


def gitea_runner() -> Path:
    """The program, built if it is not there."""

    def build(folder: Path) -> None:
        named = f"-X {RUNNER}/internal/pkg/ver.version=v{RUNNER_VERSION}"  # as a release does
        _compiled(f"{RUNNER}@v{RUNNER_VERSION}", folder / "gitea-runner", named)

    return _built("gitea-runner", f"{RUNNER} {RUNNER_VERSION}", build) / "gitea-runner"


def _compiled(module: str, program: Path, named: str, *options: str) -> Path:
    """Build a Go module in a copy of it, and return the copy: Go neither installs a module that replaces others, nor
    builds it where it keeps what it has fetched."""
    go = _tool("go", GO_UNPACKED, f"to build {module}: {NEWER_GO}")
    aside = program.parents[1]
    fetched = json.loads(_run([go, "mod", "download", "-json", module], aside, GOFLAGS="-mod=mod"))
    with zipfile.ZipFile(fetched["Zip"]) as packed:
        packed.extractall(aside)
    program.parent.mkdir()
    command = [go, "build", "-trimpath", *options, "-ldflags", f"-s -w {named}", "-o", str(program), "."]
    _run(command, aside / module, GOFLAGS=f"{AT_ONCE} -mod=readonly -buildvcs=false")
    return aside / module


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


def _run(command: Sequence[str], folder: Path, **environ: str) -> str:
    """What it prints."""
    shown, env = " ".join(command), {**os.environ, **environ}
    try:
        ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=BUILDING_TAKES)
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"not done within {BUILDING_TAKES:.0f} s: {shown}") from None
    if ran.returncode:
        raise PeerMissing(f"{shown} failed: {(ran.stderr or ran.stdout).strip()[-500:]}")
    return ran.stdout


if __name__ == "__main__":
    try:
        built = [build() for build in (go_client, emulator, act, gitea_runner, gitea)]
        print(f"programs of others for the tests: {', '.join(map(str, built))}")
    except PeerMissing as exc:
        sys.exit(str(exc))
