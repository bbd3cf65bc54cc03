"""`action-packages.txt`: what the action installs, each package with its version and the hashes of its wheels.

`python tools/action_packages.py` asks the package index and draws it again, after `constraints.txt` has changed.
"""

import re
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import httpx
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from bullpen.action import install

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
INTERPRETERS = {"py3", "py2.py3", *(f"cp{version.replace('.', '')}" for version in PYTHONS)}
HEAD = """\
# What the action installs, nothing else and nothing in its place: pip checks the hash of every wheel.
# Drawn from constraints.txt by: python tools/action_packages.py
"""


def pinned() -> dict[str, str]:
    """The versions of constraints.txt, by the names in their normal form."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def needed() -> list[str]:
    """Every package that the action's requirements lead to, on Linux, for any Python that it may meet."""
    found: dict[str, set[str]] = {}
    todo = [(Requirement(one), "") for one in install.requirements(ROOT)]
    while todo:
        asked, extra = todo.pop()
        if not any(_applies(asked, python, extra) for python in PYTHONS):
            continue
        name = canonicalize_name(asked.name)
        extras = {"", *asked.extras} - found.get(name, set())
        found.setdefault(name, set()).update(extras)
        for wanted in extras:
            todo += [(Requirement(one), wanted) for one in metadata.requires(name) or []]
    return sorted(found)


def _applies(asked: Requirement, python: str, extra: str) -> bool:
    if asked.marker is None:
        return not extra  # what an extra adds names it
    environment: dict[str, str] = {
        **{name: str(value) for name, value in default_environment().items()},
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
    }
    applies = asked.marker.evaluate({**environment, "extra": extra})
    return applies and not (extra and asked.marker.evaluate({**environment, "extra": ""}))


def index() -> str:
    """The package index that pip is set up to use, or its own default."""
    asked = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True)
    default: str = import_module("pip._internal.models.index").PyPI.simple_url
    return (asked.stdout.decode().strip() or default).rstrip("/")


def wheels(name: str, version: str) -> list[str]:
    """The hashes of a version's wheels that one of our Pythons can use, as the index says."""
    page = httpx.get(f"{index()}/{name}/", follow_redirects=True, timeout=60).raise_for_status().text
    found = []
    for filename, sha256 in re.findall(r'href="[^"#]*/([^"#/]+\.whl)#sha256=([0-9a-f]{64})"', page):
        _, of, _, tags = parse_wheel_filename(filename)
        usable = any(tag.interpreter in INTERPRETERS or tag.abi == "abi3" for tag in tags)
        if str(of) == version and usable and not any("win" in tag.platform.split("_")[0] for tag in tags):
            found.append(sha256)
    return sorted(found)


def draw() -> str:
    versions, lines = pinned(), [HEAD]
    for name in needed():
        hashes = wheels(name, versions[name])
        assert hashes, f"{name} {versions[name]} has no wheel"
        lines.append(
            " \\\n    ".join([f"{name}=={versions[name]}", *(f"--hash=sha256:{one}" for one in hashes)]) + "\n"
        )
    return "".join(lines)


if __name__ == "__main__":
    (ROOT / install.PACKAGES).write_text(draw())
