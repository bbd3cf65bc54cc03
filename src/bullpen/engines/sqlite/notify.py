"""Wake-ups among the processes of one home, by unix datagram.

A commit that changes an instance sends to the socket named by the instance's id, where its agent listens; a commit that
matters to the control plane is broadcast to every `ctl.<token>`. A wake-up says "look again" and nothing more: the
records are the truth, so a lost one costs the time until the receiver's next poll. Therefore sending never blocks and
never fails.

Standard library only: the agent imports this too.
"""

import errno
import hashlib
import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path

CONTROL = "ctl."  # prefix of the names of control-plane processes
LONGEST_NAME = 48
SOCKET_PATH_LIMIT = 103  # bytes: sun_path is 108 on Linux and 104 on macOS and the BSDs, including the closing NUL
SHORT_ROOT = Path("/tmp")  # not $TMPDIR: all processes of a home must agree, whatever their environment
LARGEST_PAYLOAD = 4096


class UnsafeDirectory(Exception):
    """The directory for sockets belongs to another user, or is not a directory."""


def socket_directory(home: Path) -> Path:
    """The directory of the home's sockets, created if missing, for its owner only.

    `<home>/wake`, unless a socket's path would be longer than the kernel takes: then one with a short name under /tmp,
    keyed by the real path of the home. Raise UnsafeDirectory if another user was there first.
    """
    real = home.resolve()
    directory = real / "wake"
    if len(os.fsencode(directory)) + len("/.sock") + LONGEST_NAME > SOCKET_PATH_LIMIT:
        directory = SHORT_ROOT / f"bullpen-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()  # not stat: a planted symbolic link is not followed
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeDirectory(f"{directory} is not a directory: remove it")
    if found.st_uid != os.geteuid():
        raise UnsafeDirectory(
            f"{directory} belongs to user {found.st_uid}, not to the user that runs Bullpen: remove"
            " it or use another home"
        )
    if found.st_mode & 0o077:
        directory.chmod(0o700)
    return directory


class Listener:
    """A bound socket. A later listener of the same name replaces an earlier one, alive or dead."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = _path(directory, name)
        self._owner = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            # Bound aside and moved into place: at no moment is the name free, half taken, or unlinked by a rival.
            aside = directory / f".{secrets.token_hex(4)}"
            self._socket.bind(os.fspath(aside))
            os.replace(aside, self._path)
            self._identity = _identity(self._path)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> list[bytes]:
        """Take all payloads that have arrived, in order, without waiting; empty if there was none."""
        payloads = []
        with suppress(BlockingIOError):
            while True:
                payloads.append(self._socket.recv(LARGEST_PAYLOAD))
        return payloads

    def close(self) -> None:
        """Stop listening and remove the name, unless a later listener has taken it. A forked child removes nothing."""
        self._socket.close()
        if os.getpid() == self._owner:
            _remove(self._path, self._identity)


def send(directory: Path, name: str, payload: bytes = b"") -> None:
    """Wake one listener. A missing, full or dead one is fine; the name of a dead one is removed."""
    path = _path(directory, name)
    identity = _identity(path)
    if identity is None:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(payload[:LARGEST_PAYLOAD], path)
        except OSError as exc:
            # Full (EAGAIN) is as good as delivered: the listener has wake-ups to read. The rest is left to its poll.
            if exc.errno == errno.ECONNREFUSED:
                _remove(path, identity)


def broadcast(directory: Path, prefix: str = CONTROL, payload: bytes = b"") -> None:
    """Wake every listener whose name starts with `prefix`."""
    try:
        names = sorted(entry for entry in os.listdir(directory) if entry.startswith(prefix) and entry.endswith(".sock"))
    except OSError:
        return
    for name in names:
        send(directory, name.removesuffix(".sock"), payload)


def _path(directory: Path, name: str) -> str:
    if not name or name.startswith(".") or "/" in name or "\0" in name or len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"{name!r} cannot name a listener: 1 to {LONGEST_NAME} bytes, no slash, no dot in front")
    return f"{directory}/{name}.sock"  # a text: this is done for every record that changes


def _identity(path: str) -> tuple[int, int] | None:
    """Which socket stands at the path. The time is part of it, because inode numbers are soon used again."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _remove(path: str, identity: tuple[int, int] | None) -> None:
    if identity is not None and _identity(path) == identity:
        with suppress(OSError):
            os.unlink(path)
