"""The distribution as users get it: the wheel, built from the sdist, and environments to install it into."""

import os
import pwd
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pip
import pytest

from bullpen import __version__
from bullpen.extras import DISTRIBUTION
from walkthroughs import ROOT

PATIENCE = 900.0
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
CONSTRAINTS = str(ROOT / "constraints.txt")
TOOLS = Path(sys.executable).parent
FILES = f"{DISTRIBUTION.replace('-', '_')}-{__version__}"


def without_the_checkout() -> dict[str, str]:
    """The variables of this process, but none by which a program would find the checkout, or Bullpen its settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("BULLPEN_", "PYTHON"))}


def ran(
    command: Sequence[str | Path], cwd: Path, user: str | None = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """As another `user`, without the permissions of this process, if one is named."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=without_the_checkout() | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        user=user,
        group=pwd.getpwnam(user).pw_gid if user else None,
        extra_groups=[] if user else None,
    )


def succeeded(command: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    found = ran(command, cwd, **variables)
    assert found.returncode == 0, f"{command}: {found.returncode}\n{found.stdout}\n{found.stderr}"
    return found.stdout


def unpacked_sdist(folder: Path) -> Path:
    """The files that users get, in a folder of their own beside the archive."""
    succeeded([TOOLS / "hatchling", "build", "-t", "sdist", "-d", folder], ROOT)
    with tarfile.open(folder / f"{FILES}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / FILES


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it, not from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    unpacked_sdist(folder)
    succeeded([TOOLS / "hatchling", "build", "-t", "wheel", "-d", folder], folder / FILES)
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    return built / f"{FILES}-py3-none-any.whl"


class Environment:
    """A virtual environment with nothing in it, or only pip; pip of this one installs into it."""

    def __init__(self, folder: Path, python: str = sys.executable, *, has_pip: bool = False) -> None:
        succeeded([python, "-m", "venv", *([] if has_pip else ["--without-pip"]), folder / "env"], folder)
        self.folder = folder
        self.python = folder / "env/bin/python"
        self.bullpen = folder / "env/bin/bullpen"

    def with_pip(self) -> "Environment":
        """With the pip of these tests, instead of one that takes seconds to install."""
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = Path(succeeded([self.python, "-c", code], self.folder).strip())
        (site / "pip").symlink_to(Path(pip.__file__).parent)
        return self

    def install(self, *requirements: str | Path) -> None:
        """Skip where no package can be fetched, unless every engine is required."""
        found = ran([*PIP, "--python", self.python, "install", "-c", CONSTRAINTS, *requirements], self.folder)
        if found.returncode and not os.environ.get("BULLPEN_REQUIRE_ENGINES"):
            pytest.skip(f"cannot be installed here: {found.stderr.strip().splitlines()[-1]}")
        assert found.returncode == 0, found.stderr

    def modules(self) -> set[str]:
        code = "import importlib.metadata as m; print(*(d.name.lower() for d in m.distributions()))"
        return set(succeeded([self.python, "-c", code], self.folder).split())
