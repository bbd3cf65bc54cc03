"""Puts what outlives a run into new directories and files, on a machine that several instances share.

A job can pass an open file or directory to a process of another instance, by a socket, and no cleaning of this one ends
that process. So what it holds must not be the next run's: each place becomes another directory, with other directories
in it, and the files of boot become copies. What is kept moves over as it is, with its files: whatever has these open
reads, and may write, what is kept, like any later run of the trust domain.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace

from bullpen.agent.cleaning import attributes
from bullpen.agent.cleaning.baseline import Baseline, Fingerprint, where
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.host.sweep import Path, shown

SLICE = 4 * 1024 * 1024  # bytes copied at a time: a heartbeat fits in between
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Renewal:
    """Of the places `names`, once they are as they were at boot. Then `baseline` is what they are now."""

    def __init__(self, baseline: Baseline, names: Collection[str], keep: KeepList) -> None:
        self.baseline = baseline
        self._names, self._keep = names, keep
        self._entries = dict(baseline.entries)
        self._times: dict[tuple[int, int], int] = {}  # change times of files with several names, after one was moved

    def run(self) -> Iterator[None]:
        """Raise OSError: then a place may be in pieces."""
        for name in self._names:
            place = self.baseline.places[name]
            fresh = f"{place}.fresh"  # beside it, where no job can write
            os.mkdir(fresh, 0o700)
            yield from self._move(place, fresh, (name,))
            os.rename(fresh, place)
        # A place inside another place is an entry there as well, known by what it was: numbers are given out again.
        roots = {self.baseline.root(name): name for name in self._names}
        for path, was in self.baseline.entries.items():
            if root := roots.get((was.device, was.inode)):
                self._entries[path] = self._entries[(root,)]
            elif (was.device, was.inode) in self._times and self._keep.covers(path):
                self._note_kept(path)
        self.baseline = replace(self.baseline, entries=self._entries)

    def _move(
        self, old: str, new: str, path: Path, above: tuple[int | None, int | None] = (None, None)
    ) -> Iterator[None]:
        """Move what is in one directory to another one, and remove it; `above` is where their names are."""
        source = os.open(old, DIRECTORY, dir_fd=above[0])
        target = os.open(new, DIRECTORY, dir_fd=above[1])
        try:
            for name in os.listdir(source):
                yield from self._treat(name, (*path, name), source, target)
            _dress(target, os.fstat(source), self.baseline.attributes.get(path, attributes.NONE))
            if path in self._entries:
                self._entries[path] = Fingerprint.of(os.fstat(target))
        finally:
            os.close(source)
            os.close(target)
        os.rmdir(old, dir_fd=above[0])

    def _treat(self, name: str, path: Path, source: int, target: int) -> Iterator[None]:
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        was = self._expected(path, status)
        is_kept = self._keep.covers(path)
        if not is_kept and stat.S_ISDIR(status.st_mode):
            os.mkdir(name, 0o700, dir_fd=target)
            yield from self._move(name, name, path, (source, target))
            return
        if not is_kept and stat.S_ISREG(status.st_mode):
            yield from self._copy(name, path, source, target)
        else:
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
            self._note_time(os.stat(name, dir_fd=target, follow_symlinks=False))
        if path in self._entries and (not is_kept or Fingerprint.of(status) == was):
            # A rename changes the change time as well. What was kept and is changed stays so.
            self._entries[path] = Fingerprint.of(os.stat(name, dir_fd=target, follow_symlinks=False))
        yield None

    def _copy(self, name: str, path: Path, source: int, target: int) -> Iterator[None]:
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source)
        try:
            new = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
            try:
                while _pour(old, new):
                    yield None
                status = os.fstat(old)
                if Fingerprint.of(status) != self._expected(path, status):
                    raise OSError(f"{shown(path)} was changed while it was copied")
                _dress(new, status, attributes.read(old))
            finally:
                os.close(new)
            os.unlink(name, dir_fd=source)
            self._note_time(os.fstat(old))
        finally:
            os.close(old)

    def _note_time(self, status: os.stat_result) -> None:
        """Moving one name of a file changes the time of all."""
        if status.st_nlink and not stat.S_ISDIR(status.st_mode):
            self._times[where(status)] = status.st_ctime_ns

    def _note_kept(self, path: Path) -> None:
        """A kept file of which other names were moved."""
        with suppress(OSError):  # a job has removed it
            status = os.stat(os.path.join(self.baseline.places[path[0]], *path[1:]), follow_symlinks=False)
            if Fingerprint.of(status) == self._expected(path, status):
                self._entries[path] = Fingerprint.of(status)

    def _expected(self, path: Path, status: os.stat_result) -> Fingerprint | None:
        """What the entry is if only this renewal has touched it since the baseline; None: it was not there."""
        was = self.baseline.entries.get(path)
        changed = self._times.get(where(status))
        return was if was is None or changed is None else was._replace(changed=changed)


def _pour(old: int, new: int) -> int:
    """Copy the next slice; 0: there was none. Where the file system can, the copy shares its blocks."""
    with suppress(OSError):
        if copied := os.copy_file_range(old, new, SLICE):
            return copied  # 0 is not always the end: some kernels answer so where they cannot do it
    return os.sendfile(new, old, None, SLICE)


def _dress(fd: int, status: os.stat_result, wanted: attributes.Attributes) -> None:
    """Give it the owner, mode, attributes and times of another."""
    os.fchown(fd, status.st_uid, status.st_gid)
    attributes.bring_back(fd, wanted)
    os.fchmod(fd, stat.S_IMODE(status.st_mode))
    os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
