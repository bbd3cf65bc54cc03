"""Removes what a judge condemns inside one directory, or a whole directory, and can be led nowhere else.

Every step goes through an open directory and one name in it, and no name is followed: if a process swaps a directory
for a symlink meanwhile, the symlink is removed. A directory on another mount is not entered, even a bind mount of the
same file system: which mount it is on is read from the open directory itself.

Memory, open files and the stack stay bounded: entries are streamed, and a tree nested deeper than DEEPEST is cut, its
lower part moved up to the top, where the next pass finds it.

Standard library only: the agent imports this too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator
from enum import Enum, auto

from bullpen.lazy_dataclass import dataclass

# Each level costs two open files; a process may have 1024 by default.
DEEPEST = 64
# Where several threads of one process remove trees at once: eight of them keep 256 files open, a quarter of the limit.
DEEPEST_OF_MANY = 16
# Entries between two yields: well under a millisecond of work each.
STRIDE = 32
# Enough to explain a failure; a job that left a million undeletable files must not fill the memory too.
MOST_TROUBLES = 20

Path = tuple[str, ...]


class EntryFate(Enum):
    """What becomes of an entry; all but the first also say what becomes of a directory's contents."""

    STAYS = auto()
    STAYS_INSIDE_JUDGED = auto()
    GOES_WHEN_EMPTY = auto()
    GOES = auto()


Judge = Callable[[Path, os.stat_result], EntryFate]


@dataclass(slots=True)
class _Level:
    """An open directory on the way down, and what is left to look at in it."""

    name: str
    fd: int
    entries: Iterator[os.DirEntry[str]]
    fate: EntryFate


def remove_tree(path: str | os.PathLike[str]) -> dict[str, str]:
    """Remove a directory with all that is in it; return what resisted, by path, with the reason. Gone is success.

    A symlink in its place is removed, and what it leads to stays. Several threads may remove trees at once, even the
    same one. Never raises OSError.
    """
    above, name = os.path.split(os.path.abspath(path))
    troubles: dict[str, str] = {}
    try:
        parent = os.open(above, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _remove(name, parent, troubles)
        finally:
            os.close(parent)
    except FileNotFoundError:
        return {}
    except OSError as failure:
        # A directory that is not empty is explained by what is still in it.
        return troubles or {name: reason_of(failure)}
    return {}  # a later pass has overcome what there was of troubles


def _remove(name: str, parent: int, troubles: dict[str, str]) -> None:
    try:
        top = enter(name, parent, mount_of(parent), unlock=True)
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent)
        return
    try:
        for _ in sweep(top, name, lambda path, status: EntryFate.GOES, troubles, DEEPEST_OF_MANY):
            pass
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def sweep(top: int, place: str, judge: Judge, troubles: dict[str, str], deepest: int = DEEPEST) -> Iterator[None]:
    """Remove everything below the open directory `top` that `judge` lets go; yield often.

    What resists is noted in `troubles` under its path and left. Ends when a whole pass has removed nothing.
    """
    # Again after every success: removing while listing may hide entries, and moved ones wait at the top.
    while (yield from _pass(top, place, judge, troubles, deepest)):
        pass


def enter(name: str, parent: int, mount: int, *, unlock: bool = False) -> int:
    """Open a directory of this mount, never through a symlink; `unlock` first lets its owner empty it."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        if mount_of(handle) != mount:
            raise OSError("something is mounted there")
        if unlock and os.fstat(handle).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            # By way of the handle: a chmod by name would follow a symlink that has just taken its place.
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


def mount_of(fd: int) -> int:
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("mnt_id:"))


def shown(path: Path) -> str:
    """A path fit for a message, whatever bytes its names are made of."""
    text = "/".join(path)
    return text if text.isprintable() else ascii(text)


def reason_of(failure: OSError) -> str:
    return (failure.strerror or str(failure)).lower()


def _pass(top: int, place: str, judge: Judge, troubles: dict[str, str], deepest: int) -> Generator[None, None, int]:
    """One look at everything; returns how many entries it removed."""
    mount = mount_of(top)
    levels = [_Level(place, os.dup(top), os.scandir(top), EntryFate.STAYS_INSIDE_JUDGED)]
    looked_at = removed = 0
    try:
        while levels:
            level = levels[-1]
            entry = next(level.entries, None)
            looked_at += 1
            if looked_at % STRIDE == 0:
                yield None
            try:
                if entry is None:
                    _leave(levels.pop())
                    if levels and level.fate in (EntryFate.GOES, EntryFate.GOES_WHEN_EMPTY):
                        os.rmdir(level.name, dir_fd=levels[-1].fd)
                        removed += 1
                    continue
                removed += _treat(entry, levels, judge, mount, deepest)
            except FileNotFoundError:
                pass
            except OSError as failure:
                # A directory that is not empty is explained by what is still in it.
                if failure.errno != errno.ENOTEMPTY and len(troubles) < MOST_TROUBLES:
                    path = (*(above.name for above in levels), level.name if entry is None else entry.name)
                    troubles[shown(path)] = reason_of(failure)
    finally:
        for level in levels:
            _leave(level)
    return removed


def _treat(entry: os.DirEntry[str], levels: list[_Level], judge: Judge, mount: int, deepest: int) -> int:
    """Deal with one entry of the lowest level; return how many were removed."""
    level = levels[-1]
    status = entry.stat(follow_symlinks=False)
    fate = EntryFate.GOES
    if level.fate is not EntryFate.GOES:
        fate = judge((*(above.name for above in levels), entry.name), status)
    if fate is EntryFate.STAYS:
        return 0
    if not stat.S_ISDIR(status.st_mode):
        if fate is not EntryFate.GOES:
            return 0
        os.unlink(entry.name, dir_fd=level.fd)
        return 1
    try:
        fd = enter(entry.name, level.fd, mount, unlock=fate is not EntryFate.STAYS_INSIDE_JUDGED)
    except NotADirectoryError:
        # Swapped meanwhile: the name goes, wherever it may lead.
        os.unlink(entry.name, dir_fd=level.fd)
        return 1
    if len(levels) >= deepest:
        os.close(fd)
        if fate is not EntryFate.GOES:
            raise OSError(errno.ELOOP, "nested too deep to be judged")
        os.rename(entry.name, f".removing-{status.st_ino}", src_dir_fd=level.fd, dst_dir_fd=levels[0].fd)
        return 1
    try:
        levels.append(_Level(entry.name, fd, os.scandir(fd), fate))
    except OSError:  # too many open files
        os.close(fd)
        raise
    return 0


def _leave(level: _Level) -> None:
    level.entries.close()  # type: ignore[attr-defined]
    os.close(level.fd)
