"""What `doctor` looks at: this machine, the home and the pool. Looks only; each finding says what to do about it."""

import os
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bullpen.config import Settings
from bullpen.inventory import Status
from bullpen.model.instance import TERMINATED
from bullpen.ports.health import Finding, Health

OLDEST_SQLITE = (3, 35, 0)  # RETURNING
SHARED_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "vboxsf", "afs", "ceph", "glusterfs")
LITTLE_DISK, NO_DISK = 1 << 30, 100 << 20  # bytes
LONGEST_HOME = 44  # bytes: behind it a socket's name still fits into what the kernel takes
MARK = b"BULLPEN_INSTANCE="  # in the environment of every process of an instance


def check_interpreter() -> Iterator[Finding]:
    """All that a pool which lives elsewhere needs of this machine."""
    yield _python()


def check_machine(home: Path) -> Iterator[Finding]:
    """Everything that can be asked before there is a pool, in the order in which one would mend it."""
    yield _python()
    yield _sqlite()
    yield _home(home)
    yield _file_system(home)
    yield _disk(home)
    yield _sockets(home)
    yield _proc()


def check_capacity(settings: Settings) -> Finding:
    """Whether the settings ask for more than this machine is said to hold."""
    wanted = sum(kind.idle_target for kind in settings.classes.values())
    found = f"{settings.local.capacity} machines allowed on {os.cpu_count()} processors; {wanted} to be kept idle"
    if wanted > settings.local.capacity:
        remedy = "Raise local.capacity, or lower classes.*.idle-target: the pool can never be filled."
        return Finding("capacity", Health.WARNING, found, remedy)
    return Finding("capacity", Health.OK, found)


def check_work_dir(settings: Settings) -> Iterator[Finding]:
    """Where jobs work, if the settings name another place than the home."""
    if not settings.local.work_dir:
        return
    named = Path(settings.local.work_dir)
    place = _existing(named)
    if not place.is_dir() or not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"Make {place} a directory that this user can write to, or change local.work-dir."
        yield Finding("work-dir", Health.FAILED, f"{place} is not a directory that can be written to", remedy)
        return
    disk = _disk(named)
    yield Finding("work-dir", disk.health, f"{named}: {disk.found}", disk.remedy)


def check_leftovers(home: Path, status: Status) -> Iterator[Finding]:
    """Records without a process, and processes of this home without a record."""
    lost = [s.instance.id for s in status.instances if s.pid is None and s.instance.state is not TERMINATED]
    known = {s.instance.id for s in status.instances}
    strays = [f"{id} (pid {pid})" for pid, id in _marked_processes(home) if id not in known]
    yield _leftover("records", lost, "instances without a process", "every live instance has its process")
    yield _leftover("processes", strays, "processes of instances that no record knows", "no process is left over")


def _leftover(name: str, found: list[str], what: str, fine: str) -> Finding:
    if not found:
        return Finding(name, Health.OK, fine)
    listed = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
    return Finding(name, Health.WARNING, f"{len(found)} {what}: {listed}", "Run `bullpen refresh`; it settles both.")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", Health.OK, f"{version} at {sys.executable}")  # an older one could not have read this


def _sqlite() -> Finding:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        remedy = f"Use a Python that was built with SQLite {wanted} or newer."
        return Finding("sqlite", Health.FAILED, sqlite3.sqlite_version, remedy)
    if sqlite3.threadsafety == 0:
        remedy = "Use a Python whose SQLite was built with threads."
        return Finding("sqlite", Health.FAILED, f"{sqlite3.sqlite_version}, without threads", remedy)
    return Finding("sqlite", Health.OK, sqlite3.sqlite_version)


def _home(home: Path) -> Finding:
    place = _existing(home)
    if not place.is_dir():
        remedy = "Name a directory with --home or BULLPEN_HOME."
        return Finding("home", Health.FAILED, f"{place} is not a directory", remedy)
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"Give this user write access to {place}, or name another home with --home or BULLPEN_HOME."
        return Finding("home", Health.FAILED, f"{place} is not writable", remedy)
    return Finding("home", Health.OK, f"{home.resolve()}{'' if place == home else ' (not made yet)'}")


def _file_system(home: Path) -> Finding:
    kind = _kind_of_file_system(_existing(home).resolve())
    if kind in SHARED_FILE_SYSTEMS:
        remedy = "Use a home on a local disk: SQLite's locks and write-ahead log do not work over a network."
        return Finding("file system", Health.FAILED, kind, remedy)
    return Finding("file system", Health.OK, kind or "unknown")


def _kind_of_file_system(place: Path) -> str:
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    above = {str(place), *map(str, place.parents)}
    return max(((len(where), kind) for _, where, kind, *_ in mounts if where in above), default=(0, ""))[1]


def _disk(home: Path) -> Finding:
    free = shutil.disk_usage(_existing(home)).free
    found = f"{free / (1 << 30):.1f} GiB free"
    if free < LITTLE_DISK:
        remedy = f"Free space on the file system of {home}: a full disk stops every write."
        return Finding("disk", Health.FAILED if free < NO_DISK else Health.WARNING, found, remedy)
    return Finding("disk", Health.OK, found)


def _sockets(home: Path) -> Finding:
    try:
        with (
            tempfile.TemporaryDirectory(dir="/tmp", prefix="bullpen-doctor-") as directory,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound,
        ):
            bound.bind(f"{directory}/probe")
    except OSError as exc:
        remedy = "Allow unix datagram sockets below /tmp: without them every wake-up waits for a poll."
        return Finding("sockets", Health.FAILED, f"cannot be bound ({exc.strerror or exc})", remedy)
    is_long = len(os.fsencode(home.resolve())) > LONGEST_HOME
    return Finding("sockets", Health.OK, "below /tmp, because the home's path is long" if is_long else "in the home")


def _proc() -> Finding:
    try:
        Path("/proc/self/stat").read_bytes()
        Path("/proc/self/environ").read_bytes()
    except OSError as exc:
        remedy = "Mount /proc: it is how processes are told apart and whole trees of them are found."
        return Finding("/proc", Health.FAILED, f"cannot be read ({exc.strerror})", remedy)
    return Finding("/proc", Health.OK, "readable")


def _existing(home: Path) -> Path:
    """The home, or what is there of the way to it."""
    return next(place for place in (home, *home.absolute().parents) if os.path.exists(place))


def _marked_processes(home: Path) -> Iterator[tuple[int, str]]:
    """Processes that carry the mark of an instance and were started for this home, with the instance's id."""
    instances = home.resolve() / "instances"
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            started_with = Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue  # ended meanwhile, or somebody else's
        marks = [entry.removeprefix(MARK) for entry in started_with[1].split(b"\0") if entry.startswith(MARK)]
        if not marks:
            continue
        id = os.fsdecode(marks[0])
        places = [os.fsencode(instances) + b"/"]
        with suppress(OSError, ValueError):  # most are in the home, and no link
            places.append(os.fsencode(os.readlink(instances / id)))
        if any(place in text for place in places for text in started_with):
            yield pid, id
