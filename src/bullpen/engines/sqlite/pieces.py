"""A file that arrives in pieces, from a client that may stop, repeat itself, or be two."""

import fcntl
import os
from pathlib import Path

from bullpen.engines.sqlite.room import StoreRoom
from bullpen.errors import Refused


def receive(path: Path, offset: int, size: int, content: bytes, store: StoreRoom, room: int | None) -> int:
    """Write at an offset what is not there yet, and return the length. A gap, or more than `size`, is Refused; so is a
    file that the store has no room for, whole."""
    if offset + len(content) > size:
        raise Refused(f"{path.name}: {offset + len(content)} bytes, and it should have {size}")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        length = os.fstat(file).st_size
        if length < offset:
            raise Refused(f"{path.name}: it has {length} bytes, none at {offset} yet")
        store.check(size - length, room)
        new = content[length - offset :]
        while new:
            written = os.pwrite(file, new, length)
            new, length = new[written:], length + written
            store.add(written)
        return length
    finally:
        os.close(file)  # and with it the lock
