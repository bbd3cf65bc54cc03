"""Whether the process that runs an operation is alive: it holds a lock on a file, which the kernel frees when it dies.

A process id would prove less: the kernel reuses it, and it means nothing in another container with the same home.
"""

import fcntl
import os
import tempfile
from pathlib import Path


class ProcessLock:
    """A lock of this process, from now until it ends or lets go. `name` is what other processes pass to `is_held`."""

    def __init__(self, folder: Path) -> None:
        for left in folder.glob("*.lock"):
            if not is_held(folder, left.stem):
                left.unlink(missing_ok=True)
        # It gets its name only once it is locked, so that no process takes a living owner for a dead one.
        handle, draft = tempfile.mkstemp(prefix=".", dir=folder)
        fcntl.flock(handle, fcntl.LOCK_EX)
        self.name = Path(draft).name.removeprefix(".")
        self._handle = handle
        self._path = _path(folder, self.name)
        os.replace(draft, self._path)

    def let_go(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._handle)


def is_held(folder: Path, name: str) -> bool:
    """Whether the process lives that has this lock."""
    try:
        with _path(folder, name).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"
