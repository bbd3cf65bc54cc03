"""What the engines need and a job's Python does not have: a virtual environment in the runner's tool cache.

Made once for each set of pinned versions and each Python, of wheels only: nothing is built, and nothing but what
constraints.txt names is installed. Bullpen itself is not: it runs from where the action was checked out.
"""

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from bullpen import __version__
from bullpen.action import workflow
from bullpen.errors import Unavailable

NEEDED = ("msgspec", "click", "rich", "aiobotocore", "httpx", "jwt", "cryptography")
EXTRAS = ("aws", "github")
CACHES = ("RUNNER_TOOL_CACHE", "RUNNER_TEMP")
KEPT_BACK = ("PYTHONPATH", "ACTION_INPUTS")  # the one is ours, the other holds secrets
PIP_PATIENCE = 300.0  # seconds


def are_here() -> bool:
    """Whether this Python has everything: a runner's image may, and the environment that we made does."""
    return all(importlib.util.find_spec(name) for name in NEEDED)


def python(root: Path, environ: Mapping[str, str]) -> str:
    """The interpreter of an environment that has everything, made if it is not there. Raise Unavailable."""
    wanted = requirements(root)
    place = _cache(environ) / "bullpen" / key(root, wanted)
    interpreter = place / "bin" / "python"
    if not interpreter.exists():
        with workflow.group(f"installing {len(wanted)} packages, once for this runner"):
            _make(root, wanted, place)
    return str(interpreter)


def requirements(root: Path) -> list[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]


def key(root: Path, wanted: list[str]) -> str:
    """Names an environment: other pins, another Bullpen or another Python have another one."""
    constraints = (root / "constraints.txt").read_text(encoding="utf-8")
    parts = [__version__, sys.version, sysconfig.get_platform(), constraints, *wanted]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _make(root: Path, wanted: list[str], place: Path) -> None:
    """Made beside its place and moved there whole: what others see is complete."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        _run([sys.executable, "-m", "venv", str(draft)])
        pip = [str(draft / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--no-input"]
        only = ["--only-binary", ":all:", "--constraint", str(root / "constraints.txt")]
        _run([*pip, "--quiet", *only, *wanted])
        try:
            os.rename(draft, place)
        except OSError:
            if not place.exists():  # else another job of this runner was faster, with the same
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _run(command: list[str]) -> None:
    """A child that does not outlive us: a cancelled step must not leave pip behind."""
    environ = {name: value for name, value in os.environ.items() if name not in KEPT_BACK}
    try:
        with subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, start_new_session=True) as child:
            try:
                code = child.wait(PIP_PATIENCE)
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)
                raise
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable(f"{command[0]}: {exc}") from exc
    if code != 0:
        raise Unavailable(
            f"{' '.join(command[1:4])}: ended with {code}",
            remedy="See above. The job needs a package index, or a server input: then nothing is installed.",
        )


def _cache(environ: Mapping[str, str]) -> Path:
    found = next((environ[name] for name in CACHES if environ.get(name)), "")
    return Path(found) if found else Path.home() / ".cache"
