"""Installation of the packages that the engines need, into a virtual environment in the runner's tool cache.

The environment is created once for each set of pinned versions and each Python, from wheels only: nothing is built.
`action-packages.txt` pins every package with its version and the hashes of its wheels, and pip installs exactly these.
Bullpen itself is not installed: it runs from the checkout of the action.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from bullpen import __version__
from bullpen.action import workflow_commands
from bullpen.errors import Unavailable

PACKAGES = "action-packages.txt"
EXTRAS = ("aws", "github")
UNSEEN = ("cryptography",)  # of pyjwt[crypto]: the metadata of an installed package does not list its extras
CACHES = ("RUNNER_TOOL_CACHE", "RUNNER_TEMP")
KEPT_BACK = ("PYTHONPATH", "ACTION_INPUTS")  # not for pip: the first is the action's own, the second has secrets
OUTSIDE = "/"
PIP_PATIENCE = 300.0  # seconds
WITHOUT = "Without the input server the job needs a package index and a writable RUNNER_TOOL_CACHE or RUNNER_TEMP."


def are_here(root: Path) -> bool:
    """Whether this Python has every package in a sufficient version, from the runner's image or from `python`."""
    return all(_is_here(one) for one in (*requirements(root), *UNSEEN))


def python(root: Path, environ: Mapping[str, str]) -> str:
    """The interpreter of an environment with every package; create it if it is missing. Raise Unavailable."""
    wanted = requirements(root)
    place = _cache(environ) / key(root, wanted)
    interpreter = place / "bin" / "python"
    if not interpreter.exists():
        with workflow_commands.group(f"installing the packages of {PACKAGES}, once for this runner"):
            _make(root, place)
    return str(interpreter)


def requirements(root: Path) -> list[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]


def key(root: Path, wanted: list[str]) -> str:
    """The name of the environment for these pins, this version of Bullpen and this Python."""
    pinned = (root / PACKAGES).read_text(encoding="utf-8")
    parts = [__version__, sys.version, sysconfig.get_platform(), pinned, *wanted]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _make(root: Path, place: Path) -> None:
    """Create the environment beside its place and rename it, so that other jobs never see an incomplete one."""
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        # -I: neither the checkout nor the job's environment decides what is imported. pip still reads PIP_* variables.
        _run([sys.executable, "-I", "-m", "venv", str(draft)])
        pip = [str(draft / "bin" / "python"), "-I", "-m", "pip", "--disable-pip-version-check", "install", "--no-input"]
        only = ["--only-binary", ":all:", "--require-hashes", "--no-deps", "--requirement", str(root / PACKAGES)]
        _run([*pip, "--quiet", *only])
        _move(draft, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move(draft: Path, place: Path) -> None:
    """Rename the environment, unless another job of this runner was faster. An environment whose Python is gone,
    because the runner's Python was replaced, is removed first."""
    if place.exists() and not (place / "bin" / "python").exists():
        broken = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        with suppress(OSError):  # another job was faster
            os.rename(place, broken)
        shutil.rmtree(broken, ignore_errors=True)
    try:
        os.rename(draft, place)
    except OSError:
        if not (place / "bin" / "python").exists():
            raise


def _run(command: list[str]) -> None:
    """Run a child process, and kill it if the step is cancelled. Its working directory is `/`: the job's own is the
    workflow's checkout, which may come from an untrusted pull request."""
    environ = {name: value for name, value in os.environ.items() if name not in KEPT_BACK}
    try:
        with subprocess.Popen(
            command,
            cwd=OUTSIDE,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as child:
            try:
                printed, _ = child.communicate(timeout=PIP_PATIENCE)
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)
                raise
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable(f"{_short(command)}: {exc}", remedy=WITHOUT) from exc
    if text := printed.decode(errors="replace").rstrip():
        workflow_commands.say(text)
    if child.returncode != 0:
        remedy = f"See the output above. {WITHOUT}"
        raise Unavailable(f"{_short(command)}: failed with exit code {child.returncode}", remedy=remedy)


def _short(command: list[str]) -> str:
    return " ".join((Path(command[0]).name, *command[1:4]))


def _cache(environ: Mapping[str, str]) -> Path:
    """The first directory that is writable; it is created if it is missing. Raise Unavailable."""
    tried = [Path(environ[name]) for name in CACHES if environ.get(name)] or [Path.home() / ".cache"]
    for place in (one / "bullpen" for one in tried):
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            if os.access(place, os.W_OK | os.X_OK):
                return place
    raise Unavailable(f"{', '.join(map(str, tried))}: not writable", remedy=WITHOUT)


def _is_here(requirement: str) -> bool:
    """Whether a package that fulfils `name[extra]>=version` is installed; the extra is ignored."""
    name, _, least = requirement.partition(">=")
    try:
        found = metadata.version(name.partition("[")[0])
    except metadata.PackageNotFoundError:
        return False
    return _numbers(found) >= _numbers(least)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", version)]
