"""Open files of the jobs' user that processes of other users have, on a machine that several instances share.

A job can pass an open file or directory to a job of another instance. Renewed places make most of that worthless; this
is the second check, for what a renewal does not reach: files that are kept, and above all programs. A file of a user
with the set-user-id bit makes a process that executes it run as that user, also long after its last name is gone. The
bit for the group makes it a member of the user's group, which may enter the places of the instance: such processes are
looked for as well.

It sees the open files, the program and the directories of each process, by thread where a thread has any of its own,
and that there is something in a socket which was passed and not yet taken. It does not see what moves between two
processes while it looks.
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import suppress

from bullpen.agent.account import Account
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import Turn
from bullpen.host.processes import PROC, UNSEEN, groups_of, identify, name_of, users_of
from bullpen.host.sweep import STRIDE, shown

LASTS = 1.0  # seconds for which something must be there at every look: a file of /tmp may be open for a moment
MOST = 200_000  # open files of others; more would take seconds to look through
MOST_SHOWN = 200  # characters of a path
KCMP = {"x86_64": 312, "aarch64": 272}  # the number of this call, which has no name in a library
KCMP_FILES, KCMP_FS = 2, 3
CAP_SYS_PTRACE = 19

Found = dict[tuple[int, int], str]  # what is open, by device and number, in a sentence
MEMBER = -1  # in the place of a device: a process, by its pid


class Holders:
    """Processes of other users that have something of the jobs' user; root's are trusted."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def sweep(self, keep: KeepList, troubles: dict[str, str]) -> Iterator[Turn]:
        """Nothing: the agent does not end processes of other users."""
        return iter(())

    def differences(self, keep: KeepList) -> Iterator[str | Turn]:
        until = time.monotonic() + LASTS
        lasting: Found | None = None
        while lasting is None or lasting:
            found = yield from self._find()
            if found is None:
                yield f"processes of other users have more than {MOST} open files: too many to check"
                return
            lasting = found if lasting is None else {one: found[one] for one in lasting if one in found}
            if time.monotonic() >= until:
                break
            yield Turn.WAITING
        yield from lasting.values()

    def _find(self) -> Generator[Turn, None, Found | None]:
        """None: there is more than MOST."""
        found: Found = {}
        seen = 0
        for pid in map(int, filter(str.isdecimal, os.listdir(PROC))):
            users = users_of(pid)
            if not users or set(users) == {0} or any(map(self._account.owns, users)):
                continue  # gone, trusted, or found as a process that is still running
            if self._has_taken_group(pid, users[0]) and (process := identify(pid)) is not None:
                found[MEMBER, pid] = f"process {pid} ({name_of(process)}) runs with the group of {self._account.name}"
            for thread in _threads(pid):
                for link in _links(thread):
                    seen += 1
                    if seen > MOST:
                        return None
                    if seen % STRIDE == 0:
                        yield Turn.WORKING
                    self._note(pid, link, found)
        return found

    def _has_taken_group(self, pid: int, user: int) -> bool:
        """Whether it runs with the group of the jobs' user, though its own user is not in it."""
        if self._account.group not in groups_of(pid):
            return False
        try:
            owner = pwd.getpwuid(user)
        except KeyError:
            return True
        return self._account.group not in os.getgrouplist(owner.pw_name, owner.pw_gid)

    def _note(self, pid: int, link: str, found: Found) -> None:
        try:
            status = os.stat(link)
        except OSError:
            return  # gone, or on a user's own file system, which answers no other user
        what = ""
        if stat.S_ISSOCK(status.st_mode):
            if _holds_passed_files(link):
                what = "a socket that holds open files which were passed to it"
        # What has a name, or had one: a pipe or a terminal leads to no file.
        elif self._account.owns(status.st_uid) and stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFDIR):
            what = f"{_path(link)} open, which is {self._account.name}'s"
        if what and (process := identify(pid)) is not None:
            found[status.st_dev, status.st_ino] = f"process {pid} ({name_of(process)}) has {what}"


def may_see_open_files() -> bool:
    """Whether the agent may see the open files of other users' processes. Root in a container may lack that right."""
    with open(f"{PROC}/self/status", encoding="ascii", errors="replace") as file:
        (rights,) = (int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    return bool(rights >> CAP_SYS_PTRACE & 1)


def _threads(pid: int) -> Iterator[str]:
    """The directories of its threads in /proc, but for those that have the open files and the directories of the first
    one."""
    first = 0
    with suppress(*UNSEEN):
        for number in map(int, os.listdir(f"{PROC}/{pid}/task")):
            if not first or not _share(first, number):
                yield f"{PROC}/{pid}/task/{number}"
            first = first or number


def _share(one: int, other: int) -> bool:
    call = KCMP.get(platform.machine())
    if call is None:
        return False
    syscall = ctypes.CDLL(None).syscall
    return all(syscall(call, one, other, kind, 0, 0) == 0 for kind in (KCMP_FILES, KCMP_FS))


def _links(thread: str) -> Iterator[str]:
    yield from (f"{thread}/{name}" for name in ("cwd", "root", "exe"))
    with suppress(FileNotFoundError, ProcessLookupError):
        yield from (f"{thread}/fd/{number}" for number in os.listdir(f"{thread}/fd"))


def _path(link: str) -> str:
    """Where a link leads, for messages."""
    try:
        return shown((os.readlink(link)[:MOST_SHOWN],))
    except OSError:
        return "a file"


def _holds_passed_files(link: str) -> bool:
    try:
        with open(link.replace("/fd/", "/fdinfo/"), encoding="ascii", errors="replace") as file:
            return any(line.startswith("scm_fds:") and line.split()[1] != "0" for line in file)
    except (FileNotFoundError, ProcessLookupError):
        return False  # gone since
