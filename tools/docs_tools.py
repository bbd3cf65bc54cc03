"""The programs that build the docs and check their workflows, fetched once into the user's cache.

    zensical     builds the site                    PyPI, the extra `docs` with the versions of constraints.txt
    zizmor       looks for insecure workflows       the same
    actionlint   looks for workflows that fail      a Go module, built by `go install`
    console      `aws`, `pipx` and `uv`, which      PyPI, in the versions below
                 commands of the docs use

They are in environments of their own, so that neither users nor the other tests install them.
`python tools/docs_tools.py` fetches beforehand.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSOLE = ("awscli==1.46.2", "pipx==1.18.4", "uv==0.13.8")
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
FETCHING_TAKES = 600.0  # seconds; 20 MB, and a minute to compile actionlint on a busy machine


class DocsToolsMissing(Exception):
    """They cannot be fetched here; the message says why, and what to do."""


def zensical() -> Path:
    return _of_the_site() / "bin" / "zensical"


def zizmor() -> Path:
    return _of_the_site() / "bin" / "zizmor"


def console() -> Path:
    """The directory of the programs."""
    return _environment("console", CONSOLE, CONSOLE) / "bin"


def actionlint() -> Path:
    """The program, compiled if it is not there."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    target = _cache() / f"actionlint-{ACTIONLINT.rpartition('@')[2]}"
    if not target.exists():
        if not Path(go).exists():
            raise DocsToolsMissing("no go on the PATH to build actionlint: install Go (https://go.dev/dl)")
        with _one_at_a_time("actionlint") as aside:
            if not target.exists():
                _run([go, "install", ACTIONLINT], GOBIN=str(aside), GOFLAGS="-mod=mod")
                (aside / "actionlint").rename(target)
    return target


def _of_the_site() -> Path:
    """Where zensical and zizmor are installed, with exactly the versions of constraints.txt."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    pins = (ROOT / "constraints.txt").read_text()
    names = [re.split(r"[^\w-]", requirement)[0] for requirement in extra]
    chosen = [line for line in pins.splitlines() if line.partition("==")[0] in names]
    return _environment("docs", chosen, ["-c", str(ROOT / "constraints.txt"), *extra])


def _environment(name: str, made_of: Sequence[str], wanted: Sequence[str]) -> Path:
    """An environment with what pip installs of `wanted`; made if there is none of this content."""
    pinned = "\n".join([sys.version, *made_of])
    target = _cache() / f"{name}-{hashlib.sha256(pinned.encode()).hexdigest()[:16]}"
    if not target.exists():
        with _one_at_a_time(name) as aside:
            if not target.exists():
                made = aside / "made"
                _run([sys.executable, "-m", "venv", str(made)])
                _run([str(made / "bin/python"), "-m", "pip", "install", "--quiet", *wanted])
                # The scripts name the Python by its path: written again for the place where they stay.
                for script in [path for path in (made / "bin").iterdir() if path.is_file() and not path.is_symlink()]:
                    content = script.read_bytes()
                    if content.startswith(b"#!"):
                        script.write_bytes(content.replace(str(made).encode(), str(target).encode(), 1))
                made.rename(target)  # whole or not there
    return target


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bullpen" / "test-engines"


class _one_at_a_time:
    """Of several processes that fetch at once, one does. Gives an empty folder, which is removed at the end."""

    def __init__(self, name: str) -> None:
        _cache().mkdir(parents=True, exist_ok=True)
        self._lock = (_cache() / f"{name}.lock").open("w")
        self._aside = tempfile.TemporaryDirectory(prefix=f"{name}-", dir=_cache())

    def __enter__(self) -> Path:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return Path(self._aside.name)

    def __exit__(self, *_: object) -> None:
        self._aside.cleanup()
        self._lock.close()


def _run(command: Sequence[str], **environ: str) -> None:
    shown = " ".join(command)
    try:
        ran = subprocess.run(
            command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=FETCHING_TAKES
        )
    except subprocess.TimeoutExpired:
        raise DocsToolsMissing(f"not done within {FETCHING_TAKES:.0f} s: {shown}") from None
    if ran.returncode:
        raise DocsToolsMissing(f"{shown} failed: {(ran.stderr or ran.stdout).strip()[-500:]}")


if __name__ == "__main__":
    try:
        print(f"the tools of the docs: {zensical()}, {zizmor()}, {actionlint()}, {console()}")
    except DocsToolsMissing as exc:
        sys.exit(str(exc))
