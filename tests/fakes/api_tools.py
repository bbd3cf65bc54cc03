"""What judges the description of the HTTP API, and makes a client of it: programs that are not ours.

    node      redocly, spectral and ajv, from npm
    python    openapi-spec-validator and openapi-python-client, from PyPI, in an environment of their own

Fetched once, in pinned versions, into the user's cache; `python tests/fakes/api_tools.py` fetches beforehand.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

NODE = {"@redocly/cli": "2.77.0", "@stoplight/spectral-cli": "6.16.3", "ajv": "8.20.0", "ajv-formats": "3.0.1"}
PYTHON = {"openapi-python-client": "0.29.1", "openapi-spec-validator": "0.9.0"}
FETCHING_TAKES = 600.0  # seconds; 180 MB when unpacked
REMEDY = "install node and npm (on Debian and Ubuntu: apt-get install npm), then `python tests/fakes/api_tools.py`"


class ApiToolsMissing(Exception):
    """They cannot be fetched here; the message says why, and what to do."""


def node_tools() -> Path:
    """The folder with `node_modules`; made if it is not there."""
    return fetched_from_npm("api-node", NODE)


def fetched_from_npm(name: str, packages: Mapping[str, str]) -> Path:
    """A folder of this name with the packages in `node_modules`, in these versions."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise ApiToolsMissing(f"no npm or no node on the PATH: {REMEDY}")
    wanted = [f"{package}@{version}" for package, version in packages.items()]

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "package.json").write_text("{}")
        _run(["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", *wanted], folder)

    return _fetched(name, json.dumps(packages), make)


def python_tools() -> Path:
    """The Python that has them; its environment is made if it is not there."""
    wanted = [f"{name}=={version}" for name, version in PYTHON.items()]

    def make(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)], folder.parent)
        quiet = ["--quiet", "--disable-pip-version-check"]
        _run([str(folder / "bin/python"), "-m", "pip", "install", *quiet, *wanted], folder)

    return _fetched("api-python", json.dumps([sys.version, PYTHON]), make) / "bin/python"


def _fetched(name: str, pinned: str, make: Callable[[Path], None]) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bullpen" / "test-engines"
    target = cache / f"{name}-{hashlib.sha256(pinned.encode()).hexdigest()[:16]}"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{name}.lock").open("w") as lock, tempfile.TemporaryDirectory(dir=cache) as aside:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes that fetch at once, one does
            if not target.exists():
                make(Path(aside) / "made")
                (Path(aside) / "made").rename(target)  # whole or not there
    return target


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCHING_TAKES)
    except subprocess.TimeoutExpired:
        raise ApiToolsMissing(f"not done within {FETCHING_TAKES:.0f} s: {' '.join(command)}") from None
    if ran.returncode:
        raise ApiToolsMissing(f"{' '.join(command)} failed: {(ran.stderr or ran.stdout).strip()[-500:]}")


if __name__ == "__main__":
    try:
        print(f"the tools that check the description of the API: {node_tools()}, {python_tools()}")
    except ApiToolsMissing as exc:
        sys.exit(str(exc))
