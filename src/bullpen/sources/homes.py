"""Recognises the home of a pool, also of another one than the command uses: its secrets are never sent."""

import os

DATABASE = b"bullpen.db"
SQLITE = b"SQLite format 3\0"


def is_home(directory: bytes, dir_fd: int | None = None) -> bool:
    """Whether a directory has the database of a pool. One that cannot be read has none that could be sent."""
    try:
        name = os.path.join(directory, DATABASE)
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        return False
    try:
        return os.read(fd, len(SQLITE)) == SQLITE
    except OSError:
        return False
    finally:
        os.close(fd)
