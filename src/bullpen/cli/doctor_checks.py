"""The checks of `doctor` on this machine, the home and the pool. They change nothing, and each finding has a remedy."""

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
from bullpen.settings.schedule import largest_sum

OLDEST_SQLITE = (3, 35, 0)  # RETURNING
SHARED_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "vboxsf", "afs", "ceph", "glusterfs")
LITTLE_DISK, NO_DISK = 1 << 30, 100 << 20  # bytes
LONGEST_HOME = 44  # bytes: with a longer path, a socket's name would exceed the kernel's limit
MARK = b"BULLPEN_INSTANCE="  # every process of an instance has this variable in its environment


def check_machine(home: Path) -> Iterator[Finding]:
    """Checks that need no pool, in the order in which one would fix them."""
    yield check_python()
    yield _sqlite()
    yield _home(home)
    yield _file_system(home)
    yield _disk(home)
    yield _sockets(home)
    yield _proc()


def check_capacity(settings: Settings) -> Finding:
    """Whether the idle targets exceed the capacity of this machine."""
    wanted, at = largest_sum(settings.classes)
    by_clock = f", the most at any time ({at:%a %H:%M} UTC)" if at else ""
    found = f"local.capacity {settings.local.capacity} on {os.cpu_count()} processors; idle targets {wanted}{by_clock}"
    if wanted > settings.local.capacity:
        remedy = "Raise local.capacity or lower classes.*.idle-target: the targets exceed the capacity."
        return Finding("capacity", Health.WARNING, found, remedy)
    return Finding("capacity", Health.OK, found)


def check_work_dir(settings: Settings) -> Iterator[Finding]:
    """The directory for jobs, if the settings name one outside the home."""
    if not settings.local.work_dir:
        return
    named = Path(settings.local.work_dir)
    place = _existing(named)
    if not place.is_dir() or not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"Make {place} a directory that this user can write to, or change local.work-dir."
        yield Finding("work-dir", Health.FAILED, f"{place} is not a writable directory", remedy)
        return
    disk = _disk(named)
    yield Finding("work-dir", disk.health, f"{named}: {disk.found}", disk.remedy)


def check_leftovers(home: Path, status: Status) -> Iterator[Finding]:
    """Instances without a process, and processes of this home whose instance has no record."""
    lost = [s.instance.id for s in status.instances if s.pid is None and s.instance.state is not TERMINATED]
    known = {s.instance.id for s in status.instances}
    strays = [f"{id} (pid {pid})" for pid, id in _marked_processes(home) if id not in known]
    yield _leftover("records", lost, "instances without a process", "every live instance has a process")
    yield _leftover("processes", strays, "processes of instances without a record", "every process has a record")


def _leftover(name: str, found: list[str], what: str, fine: str) -> Finding:
    if not found:
        return Finding(name, Health.OK, fine)
    listed = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
    return Finding(
        name, Health.WARNING, f"{len(found)} {what}: {listed}", "Run `bullpen refresh`, which cleans up both."
    )


def check_python() -> Finding:
    """The only check of this machine for a pool on AWS."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", Health.OK, f"{version} at {sys.executable}")  # an older Python cannot load this module


def _sqlite() -> Finding:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        remedy = f"Use a Python that was built with SQLite {wanted} or newer."
        return Finding("sqlite", Health.FAILED, sqlite3.sqlite_version, remedy)
    if sqlite3.threadsafety == 0:
        remedy = "Use a Python whose SQLite was built with thread support."
        return Finding("sqlite", Health.FAILED, f"{sqlite3.sqlite_version}, without thread support", remedy)
    return Finding("sqlite", Health.OK, sqlite3.sqlite_version)


def _home(home: Path) -> Finding:
    place = _existing(home)
    if not place.is_dir():
        remedy = "Set --home or BULLPEN_HOME to a directory."
        return Finding("home", Health.FAILED, f"{place} is not a directory", remedy)
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"Give this user write access to {place}, or set --home or BULLPEN_HOME to another directory."
        return Finding("home", Health.FAILED, f"{place} is not writable", remedy)
    return Finding("home", Health.OK, f"{home.resolve()}{'' if place == home else ' (not created yet)'}")


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
        remedy = "Allow Unix datagram sockets below /tmp: without them processes poll and react later."
        return Finding("sockets", Health.FAILED, f"cannot be bound ({exc.strerror or exc})", remedy)
    is_long = len(os.fsencode(home.resolve())) > LONGEST_HOME
    return Finding(
        "sockets", Health.OK, "below /tmp, because the path of the home is long" if is_long else "in the home"
    )


def _proc() -> Finding:
    try:
        Path("/proc/self/stat").read_bytes()
        Path("/proc/self/environ").read_bytes()
    except OSError as exc:
        remedy = "Mount /proc: Bullpen needs it to identify processes and find their children."
        return Finding("/proc", Health.FAILED, f"cannot be read ({exc.strerror})", remedy)
    return Finding("/proc", Health.OK, "readable")


def _existing(home: Path) -> Path:
    """The home, or the nearest parent directory that exists."""
    return next(place for place in (home, *home.absolute().parents) if os.path.exists(place))


def _marked_processes(home: Path) -> Iterator[tuple[int, str]]:
    """Processes of instances of this home, with the instance's id."""
    instances = home.resolve() / "instances"
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            started_with = Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue  # ended meanwhile, or of another user
        marks = [entry.removeprefix(MARK) for entry in started_with[1].split(b"\0") if entry.startswith(MARK)]
        if not marks:
            continue
        id = os.fsdecode(marks[0])
        places = [os.fsencode(instances) + b"/"]
        with suppress(OSError, ValueError):  # a link only if local.work-dir is set
            places.append(os.fsencode(os.readlink(instances / id)))
        if any(place in text for place in places for text in started_with):
            yield pid, id
