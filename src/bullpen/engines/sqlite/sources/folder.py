"""Where the files of projects are in a home, and the lock that storing a manifest and removing packs share."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bullpen.errors import Refused
from bullpen.host.stored_files import SOURCES
from bullpen.model.manifest import is_hash


class SourceFolder:
    """`<home>/sources`."""

    def __init__(self, home: Path) -> None:
        self.top = home / SOURCES
        self.packs = self.top / "packs"
        self.manifests = self.top / "manifests"
        self.incoming = self.top / "incoming"
        self.clients = self.top / "clients"

    @contextmanager
    def locked(self) -> Iterator[None]:
        fd = os.open(self.top / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def make(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_id(text: str) -> None:
    """What is not a hash might be a path."""
    if not is_hash(text):
        raise Refused(f"{text[:80]!r}: not a SHA-256 in 64 hexadecimal digits")
