"""What the engines need and a job's Python does not have: a virtual environment in the runner's tool cache.

Made once for each set of pinned versions and each Python, of wheels only: nothing is built. `action-packages.txt` names
every package with its version and the hashes of its wheels: pip installs exactly these, whatever the package index
offers. Bullpen itself is not installed: it runs from where the action was checked out.
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
UNSEEN = ("cryptography",)  # of pyjwt[crypto]: what was installed does not tell its extras
CACHES = ("RUNNER_TOOL_CACHE", "RUNNER_TEMP")
KEPT_BACK = ("PYTHONPATH", "ACTION_INPUTS")  # the one is ours, the other holds secrets
OUTSIDE = "/"
PIP_PATIENCE = 300.0  # seconds
WITHOUT = "Without a server input the job needs a package index, and room in RUNNER_TOOL_CACHE or RUNNER_TEMP."


def are_here(root: Path) -> bool:
    """Whether this Python has everything, new enough: a runner's image may, and the environment that we made does."""
    return all(_is_here(one) for one in (*requirements(root), *UNSEEN))


def python(root: Path, environ: Mapping[str, str]) -> str:
    """The interpreter of an environment that has everything, made if it is not there. Raise Unavailable."""
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
    """Names an environment: other pins, another Bullpen or another Python have another one."""
    pinned = (root / PACKAGES).read_text(encoding="utf-8")
    parts = [__version__, sys.version, sysconfig.get_platform(), pinned, *wanted]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _make(root: Path, place: Path) -> None:
    """Made beside its place and moved there whole: what others see is complete."""
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        # -I: neither the checkout nor the job's environment decides what is imported. pip obeys its own, PIP_*.
        _run([sys.executable, "-I", "-m", "venv", str(draft)])
        pip = [str(draft / "bin" / "python"), "-I", "-m", "pip", "--disable-pip-version-check", "install", "--no-input"]
        only = ["--only-binary", ":all:", "--require-hashes", "--no-deps", "--requirement", str(root / PACKAGES)]
        _run([*pip, "--quiet", *only])
        _move(draft, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move(draft: Path, place: Path) -> None:
    """To its place, unless another job of this runner was faster, with the same. One that stands there and whose Python
    is gone, because the runner's own was replaced, goes first."""
    if place.exists() and not (place / "bin" / "python").exists():
        broken = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        with suppress(OSError):  # somebody else was faster
            os.rename(place, broken)
        shutil.rmtree(broken, ignore_errors=True)
    try:
        os.rename(draft, place)
    except OSError:
        if not (place / "bin" / "python").exists():
            raise


def _run(command: list[str]) -> None:
    """A child that does not outlive us: a cancelled step must not leave pip behind. It finds nothing in its working
    directory, which is not ours: that is the workflow's checkout, maybe a stranger's, and the job may have credentials
    in its environment."""
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
        raise Unavailable(f"{_short(command)}: ended with {child.returncode}", remedy=f"See above. {WITHOUT}")


def _short(command: list[str]) -> str:
    return " ".join((Path(command[0]).name, *command[1:4]))


def _cache(environ: Mapping[str, str]) -> Path:
    """The first place that can be written to; made if it is not there."""
    tried = [Path(environ[name]) for name in CACHES if environ.get(name)] or [Path.home() / ".cache"]
    for place in (one / "bullpen" for one in tried):
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            if os.access(place, os.W_OK | os.X_OK):
                return place
    raise Unavailable(f"{', '.join(map(str, tried))}: cannot be written to", remedy=WITHOUT)


def _is_here(requirement: str) -> bool:
    """Whether what `name[extra]>=version` asks for is installed, but for the extra."""
    name, _, least = requirement.partition(">=")
    try:
        found = metadata.version(name.partition("[")[0])
    except metadata.PackageNotFoundError:
        return False
    return _numbers(found) >= _numbers(least)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", version)]
