"""A Bullpen that is installed in a folder of its own: this version, or the one that the tests here upgrade from.

Its commands are started one by one, as a user starts them. `starter.py` is of no use to an older version: it names
modules that have other names there.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import bullpen
from scenario.commands import Starter

BEFORE = Path(__file__).with_name("bullpen-fe670ee.tar.xz")
PROGRAM = "import sys; from bullpen.cli import main; sys.exit(main())"


class Installed(Starter):
    """Starts the commands that `commands.Commands` asks for, from the tree in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @classmethod
    def before(cls, folder: Path) -> "Installed":
        """The version that the tests upgrade from."""
        with tarfile.open(BEFORE) as archive:
            archive.extractall(folder, filter="data")
        return cls(folder / "src")

    @classmethod
    def now(cls, folder: Path) -> "Installed":
        """A copy of this version."""
        own = Path(bullpen.__file__).parent
        shutil.copytree(own, folder / own.name, ignore=shutil.ignore_patterns("__pycache__"))
        return cls(folder)

    def ask(self, **question: Any) -> dict[str, Any]:
        if "wait" in question:
            return {"code": self._running.pop(question["wait"]).wait()}
        assert not question["ahead"], "its clock is the real one"
        assert not question["skewed"], "its clock is the real one"
        ours = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
        with open(question["out"], "wb") as out, open(question["err"], "wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *question["start"]],
                env={**ours, "PYTHONPATH": str(self.folder), **question["environ"]},
                cwd=question["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self._running[process.pid] = process
        return {"pid": process.pid}

    def close(self) -> None:
        """There is nothing to end: every command was waited for."""
