"""What a client remembers of a work tree: the blocks of each file, as of its size, times and inode.

So a file that has not changed since the last run is not read again. A file that changed so shortly before it was read
that another change might have left its times as they are is not remembered: it is read again next time, as git does it.
"""

import json
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

FORMAT = 1
RACY = 2_000_000_000  # nanoseconds: the coarsest clock of a file system in use, that of FAT


def stamp_of(status: os.stat_result) -> list[int]:
    """What is different after every change of a file, but for one in the same tick of the clock."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


class HashCache:
    """One file in `directory` for each work tree. One that cannot be read or written is as good as none."""

    def __init__(self, directory: Path, root: Path) -> None:
        self._path = directory / f"{sha256(os.fsencode(root)).hexdigest()[:32]}.json"
        self._known = _read(self._path)
        self._now: dict[str, Any] = {}

    def get(self, path: str, status: os.stat_result) -> list[tuple[str, int]] | None:
        """The blocks of a file that has not changed."""
        found = self._known.get(path)
        if found is None or found[0] != stamp_of(status):
            return None
        self._now[path] = found
        return [(digest, length) for digest, length in found[1]]

    def put(self, path: str, status: os.stat_result, blocks: list[tuple[str, int]], read_at: int) -> None:
        """Remember a file that was read at this time, in nanoseconds since 1970."""
        if max(status.st_mtime_ns, status.st_ctime_ns) < read_at - RACY:
            self._now[path] = [stamp_of(status), blocks]

    def forget(self) -> None:
        """Nothing that was remembered holds: the store lacks what it should have, or has something else."""
        self._known = {}
        self._now = {}

    def save(self) -> None:
        """Only the files that the tree has now."""
        part = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            part.write_text(json.dumps({"format": FORMAT, "files": self._now}), encoding="ascii")
            part.chmod(0o600)
            part.replace(self._path)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
        if found["format"] != FORMAT:
            return {}
        return dict(found["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
