"""An instance's places as they were at boot, and how they differ now.

A place is a directory with a name: work, home, tmp, and the instance's own around them. Its entries are known by their
path, which begins with that name. A place inside another place is looked at under its own name only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

from bullpen.agent.cleaning import attributes
from bullpen.agent.cleaning.attributes import Attributes
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.host.processes import ProcessIdentity, descendants, identify, name_of
from bullpen.host.sweep import DEEPEST, STRIDE, Path, enter, mount_of, reason_of, shown
from bullpen.lazy_dataclass import dataclass


class Fingerprint(NamedTuple):
    """What shows that an entry is the one it was. A job can set every time but the change time.

    Size and times of a directory say only that something came and went in it, and are left out; so are those of a file
    that the agent writes to itself.
    """

    mode: int
    device: int
    inode: int
    owner: int
    group: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result, *, grows: bool = False) -> Fingerprint:
        who = (status.st_mode, status.st_dev, status.st_ino, status.st_uid, status.st_gid)
        if grows or stat.S_ISDIR(status.st_mode):
            return cls(*who, 0, 0, 0)
        return cls(*who, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def changes(self, now: Fingerprint) -> list[str]:
        """The names of what differs."""
        return [name for name, old, new in zip(self._fields, self, now, strict=True) if old != new]


@dataclass(frozen=True, slots=True)
class Baseline:
    """An instance as it was at boot: its places by name, every entry in them, and the processes that belong there."""

    places: Mapping[str, str]
    entries: Mapping[Path, Fingerprint]
    processes: frozenset[ProcessIdentity]  # spared by a cleaning, but for those that run as `user` by then
    mark: str
    growing: frozenset[Path] = frozenset()
    user: int | None = None  # the user of the jobs alone: all its processes belong to jobs
    attributes: Mapping[Path, Attributes] = field(default_factory=dict)  # of the directories that have any

    def root(self, name: str) -> tuple[int, int]:
        """The directory that the place was."""
        top = self.entries[(name,)]
        return top.device, top.inode


def take_baseline(
    places: Mapping[str, str | os.PathLike[str]], mark: str, growing: Iterable[Path] = (), user: int | None = None
) -> Baseline:
    """Note what is there now. `growing`: files that the caller goes on writing to. It must be a subreaper by now."""
    logs = frozenset(growing)
    here = {name: os.path.abspath(place) for name, place in places.items()}
    roots = {where(os.lstat(place)) for place in here.values()}
    entries: dict[Path, Fingerprint] = {}
    noted: dict[Path, Attributes] = {}
    for name, place in here.items():
        for sight in walk(place, name, lambda path, status: where(status) not in roots):
            if sight.status is not None:
                entries[sight.path] = Fingerprint.of(sight.status, grows=sight.path in logs)
            if sight.attributes:
                noted[sight.path] = sight.attributes
    processes = frozenset(descendants(identify(os.getpid()), mark, user))
    return Baseline(here, entries, processes, mark, logs, user, noted)


def differences(baseline: Baseline, keep: KeepList) -> Iterator[str | None]:
    """Every difference from the baseline, one sentence each, and None now and then in between. Changes nothing."""
    enters = survives(baseline, keep)
    missing = {path: None for path in baseline.entries if not keep.covers(path)}
    looked_at = 0
    for name, place in baseline.places.items():
        try:
            for sight in walk(place, name, enters):
                looked_at += 1
                if looked_at % STRIDE == 0:
                    yield None
                missing.pop(sight.path, None)
                if not keep.covers(sight.path) and (difference := _compare(sight, baseline, keep)):
                    yield f"{shown(sight.path)} {difference}"
        except OSError as failure:
            yield f"{name} cannot be read: {failure.strerror}"
    for path in missing:
        yield f"{shown(path)} is missing"
    for process in descendants(identify(os.getpid()), baseline.mark, baseline.user, baseline.processes):
        yield f"process {process.pid} ({name_of(process)}) is still running"


def bring_back_attributes(baseline: Baseline, name: str, keep: KeepList, troubles: dict[str, str]) -> Iterator[None]:
    """Give the directories of a place that outlive a run the attributes that they had at boot."""

    def mend(path: Path, fd: int) -> None:
        try:
            attributes.bring_back(fd, baseline.attributes.get(path, attributes.NONE))
        except OSError as failure:
            troubles[shown(path)] = reason_of(failure)

    for _ in walk(baseline.places[name], name, survives(baseline, keep), mend):
        yield None


def survives(baseline: Baseline, keep: KeepList) -> Callable[[Path, os.stat_result], bool]:
    """Whether a directory outlives a run without being kept with all that is in it, and is no place of its own."""
    roots = {baseline.root(name) for name in baseline.places}

    def enters(path: Path, status: os.stat_result) -> bool:
        known = path in baseline.entries or keep.leads_on(path)
        return known and not keep.covers(path) and where(status) not in roots

    return enters


def _compare(sight: FoundEntry, baseline: Baseline, keep: KeepList) -> str | None:
    if sight.status is None or sight.trouble:
        return f"cannot be read: {sight.trouble}"
    was = baseline.entries.get(sight.path)
    now = Fingerprint.of(sight.status, grows=sight.path in baseline.growing)
    if was is None and not (keep.leads_on(sight.path) and stat.S_ISDIR(sight.status.st_mode)):
        return "was left behind"
    changes = was.changes(now) if was is not None else []
    if stat.S_ISDIR(sight.status.st_mode):
        changes += attributes.changes(baseline.attributes.get(sight.path, attributes.NONE), sight.attributes)
    return f"was changed: {', '.join(changes)}" if changes else None


class FoundEntry(NamedTuple):
    """`status`: None where even the type is unknown, as of a user's own mount that no other user can read."""

    path: Path
    status: os.stat_result | None
    trouble: str | None = None
    attributes: Attributes = attributes.NONE  # of a directory that was looked into


Enters = Callable[[Path, os.stat_result], bool]
Mend = Callable[[Path, int], None]


def walk(place: str, name: str, enters: Enters, mend: Mend | None = None) -> Iterator[FoundEntry]:
    """Everything in a place, parents first, looking only into the directories that `enters` names. `mend` is given
    each of these before it is looked at, and open."""
    top = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield _looked_into(top, (name,), os.fstat(top), mend)
        yield from _walk_into(top, (name,), mount_of(top), enters, mend)
    finally:
        os.close(top)


def _looked_into(fd: int, path: Path, status: os.stat_result, mend: Mend | None) -> FoundEntry:
    if mend is not None:
        mend(path, fd)
    try:
        return FoundEntry(path, status, attributes=attributes.read(fd))
    except OSError as failure:
        return FoundEntry(path, status, reason_of(failure))


def _walk_into(fd: int, path: Path, mount: int, enters: Enters, mend: Mend | None) -> Iterator[FoundEntry]:
    with os.scandir(fd) as entries:
        for entry in entries:
            below = (*path, entry.name)
            try:
                status = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # gone meanwhile
            except OSError as failure:
                yield FoundEntry(below, None, reason_of(failure))
                continue
            if not (stat.S_ISDIR(status.st_mode) and enters(below, status)):
                yield FoundEntry(below, status)
            elif len(below) > DEEPEST:
                yield FoundEntry(below, status, "nested too deep")
            else:
                try:
                    inner = enter(entry.name, fd, mount)
                except OSError as failure:
                    yield FoundEntry(below, status, reason_of(failure))
                    continue
                try:
                    yield _looked_into(inner, below, status, mend)
                    yield from _walk_into(inner, below, mount, enters, mend)
                finally:
                    os.close(inner)


def where(status: os.stat_result) -> tuple[int, int]:
    """What makes a directory the same one, whatever it is called."""
    return status.st_dev, status.st_ino
