"""The users that jobs run as, where that is not the user that runs Bullpen. Only root can choose them.

Each machine has a user of its own for as long as it lives. So it is the kernel that keeps its jobs away from the files,
the processes and the secrets of other machines; and whatever runs as that user is the machine's, and ends with it.
"""

import fcntl
import os
import pwd
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from bullpen.config import Settings
from bullpen.host.processes import descendants

SETTING = "local.runner-users"
LOCKS = Path("/run/bullpen-users")


class Unusable(Exception):
    """The settings name users as whom jobs cannot run."""


def offered(settings: Settings) -> tuple[str, ...] | None:
    """The users there are, those first that were given out longest ago; None if jobs run as Bullpen. Raise Unusable."""
    names = settings.local.runner_users
    if os.geteuid() != 0 or (not names and not settings.on_github):
        return None
    if not names:
        raise Unusable(f"GitHub's runner refuses to run as root: {SETTING} must name users for jobs to run as")
    owners: dict[str, str] = {}
    turns: dict[str, int] = {}
    for name in (names := tuple(dict.fromkeys(names))):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise Unusable(f"{SETTING}: there is no user {name!r}") from None
        if found.pw_uid == 0:
            raise Unusable(f"{SETTING}: {name!r} is root: jobs must not run as root")
        for number in (f"user id {found.pw_uid}", f"group id {found.pw_gid}"):
            if (other := owners.setdefault(number, name)) != name:
                raise Unusable(
                    f"{SETTING}: {other!r} and {name!r} share {number}: jobs could change each other's files"
                )
        turns[name] = _last_turn(found.pw_uid)
    return tuple(sorted(names, key=turns.__getitem__))


def free(users: Collection[str] | None, taken: Collection[str], most: int) -> list[str]:
    """A user for each of at most so many new machines, which may be none; empty names: as Bullpen does."""
    return [""] * most if users is None else [user for user in users if user not in taken][:most]


def number_of(user: str) -> int | None:
    """None if there is no such user, or if no job must run as it: root, or the user that runs Bullpen."""
    try:
        number = pwd.getpwnam(user).pw_uid if user else None
    except KeyError:
        return None
    return None if number in (0, os.geteuid()) else number


def number_at_end(user: str, at_launch: int | None) -> int | None:
    """As whom everything may be ended with a machine; None if the name does not mean any more whom it meant then."""
    number = number_of(user)
    return number if at_launch in (None, number) else None


def strangers(uid: int) -> str:
    """The processes of this user, for messages; empty if there are none."""
    return ", ".join(str(process.pid) for process in descendants(None, "no mark", uid))


def busy(names: Collection[str]) -> dict[str, str]:
    """Those of them as whom something runs, and its pids. A quick look: `launch` takes a thorough one."""
    seen = set()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            seen.add(os.stat(f"/proc/{pid}").st_uid)
    found = {name: number for name in names if (number := number_of(name)) in seen and number is not None}
    return {name: pids for name, number in found.items() if (pids := strangers(number))}  # the ended are seen as well


class Hold:
    """Holds a user, so that no launcher, agent or terminator of any home gets it, until nothing refers to this.

    A thread that ends processes keeps it so for as long as it works, even if its caller was cancelled. The
    agent of a machine inherits the open file and has the user for its life: the kernel takes it back when it dies.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def release(self) -> None:
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)

    __del__ = release


def hold(uid: int) -> Hold | None:
    """None if another process has the user now; never waits. Raise Unusable."""
    try:
        handle = os.open(_locks() / str(uid), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise Unusable(f"{SETTING}: cannot lock user id {uid}: {exc}") from exc
    held = Hold(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return held


def note_turn(uid: int) -> None:
    """Record that a machine gets this user now. Every other user is then tried before this one is tried again, whether
    the machine boots or not: files of an earlier machine may prevent the boot, or another home may use the user. Raise
    Unusable."""
    try:
        (_locks() / str(uid)).touch(mode=0o600)
    except OSError as exc:
        raise Unusable(f"{SETTING}: cannot lock user id {uid}: {exc}") from exc


def _last_turn(uid: int) -> int:
    """When any home of this box gave the user out; 0: not since the box was started. Raise Unusable."""
    try:
        return (_locks() / str(uid)).lstat().st_mtime_ns
    except FileNotFoundError:
        return 0
    except OSError as exc:
        raise Unusable(f"{SETTING}: cannot lock user id {uid}: {exc}") from exc


def _locks() -> Path:
    """Where all homes of this box find the locks, and only root can make or open one. Raise OSError."""
    try:
        LOCKS.mkdir(mode=0o700, exist_ok=True)
        directory = LOCKS
    except OSError:
        directory = Path(tempfile.gettempdir(), LOCKS.name)
        directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o077:
        mend = f"chown root {directory}; chmod 700 {directory}"
        raise PermissionError(f"{directory} must be a directory that only root can use: {mend}")
    return directory
