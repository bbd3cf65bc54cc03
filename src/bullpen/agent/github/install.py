"""An instance's own copy of GitHub's runner, which keeps its registration and its logs beside its programs.

Files of the original are linked instead of copied, because a runner has half a gigabyte. So the user of the jobs must
not be able to change them, which would change the runner of every instance. The agent's user owns the programs; the
jobs' user may add files beside them, as the runner must, and cannot replace them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.account import may_change
from bullpen.agent.cleaning.slices import CannotSettle, Turn
from bullpen.host.sweep import remove_tree

if TYPE_CHECKING:
    from bullpen.agent.account import Account

PROGRAMS = ("config.sh", "run.sh")
REGISTRATION = re.compile(r"\.runner.*|\.credentials.*")  # what config.sh writes down of a registration
OF_ANOTHER_LIFE = re.compile(r"\.runner.*|\.credentials.*|\.service|\.env|\.path|_diag|_work|run-helper\.sh")
"""What a runner writes once it is configured. Its `.env` would win over the agent's variables, the hooks included."""
SLICE = 4 * 1024 * 1024  # bytes copied at a time: a heartbeat fits in between


def install(source: Path, target: Path, account: Account | None) -> Generator[Turn, None, tuple[Path, ...]]:
    """Copy the runner, and return those files that are links, relative to it. Raise CannotSettle."""
    if absent := [name for name in PROGRAMS if not (source / name).is_file()]:
        raise CannotSettle(
            f"{source} has no {absent[0]}: install GitHub's runner in github.runner-directory, "
            "or let it be downloaded from github.runner-url"
        )
    linked: list[Path] = []
    try:
        if account is not None:
            _check_way(source, account)
        source = source.resolve()
        target.mkdir()
        for entry in _entries(source):
            if not OF_ANOTHER_LIFE.fullmatch(entry.parts[0]):
                if (yield from _place(source, entry, target, account)):
                    linked.append(entry)
                yield Turn.WORKING
        protect(target, account)
    except OSError as exc:
        raise CannotSettle(f"GitHub's runner cannot be copied from {source}: {exc}") from exc
    return tuple(linked)


def protect(target: Path, account: Account | None) -> None:
    """Let the user of the jobs add files, and replace none. Others can open nothing there, even if a job passes
    them the open directory: it stays the same one, and the mode of the next run's files may let all read them."""
    target.chmod(0o755)
    if account is not None:
        os.chown(target, -1, account.group)
        target.chmod(0o1770)


def open_up(target: Path) -> Iterator[Turn]:
    """Let all users read and execute these files, and only their owner write to them."""
    for entry in _entries(target):
        path = target / entry
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        yield Turn.WORKING


def strip(directory: Path, programs: Collection[str]) -> None:
    """Leave nothing there but these entries, however deep the others are. Nothing of a job may run any more. Raise
    OSError."""
    for name in sorted({*os.listdir(directory)} - {*programs}):
        if troubles := remove_tree(directory / name):
            why = "; ".join(f"{path}: {trouble}" for path, trouble in troubles.items())
            raise OSError(f"{directory / name} cannot be removed ({why})")


class RegistrationFiles:
    """What config.sh writes down of a registration, as it is when this is made: before the first job.

    The files lie beside GitHub's runner and belong to the user of the jobs. A job may change them: to have another
    runner removed instead of this one, or to have the token sent elsewhere. So what removes a registration finds the
    directory as it was when that was made.
    """

    def __init__(self, directory: Path) -> None:
        """Raise OSError."""
        found = (path for path in directory.iterdir() if REGISTRATION.fullmatch(path.name))
        self._files = {path.name: path.read_bytes() for path in found}

    def bring_back(self, directory: Path, programs: Collection[str], account: Account | None) -> None:
        """Leave nothing there but the programs and these files. Nothing of a job may run any more. Raise OSError."""
        strip(directory, programs)
        for name, content in self._files.items():
            # Never through a link or file that a job may have put there.
            with os.fdopen(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                if account is not None:
                    os.fchown(file.fileno(), account.user, account.group)


def _entries(top: Path) -> Iterator[Path]:
    """Everything below, relative to it, directories before what they hold."""
    for above, directories, files in os.walk(top):
        directories.sort()
        for name in (*directories, *sorted(files)):
            yield Path(above, name).relative_to(top)


def _place(source: Path, entry: Path, target: Path, account: Account | None) -> Generator[Turn, None, bool]:
    """Make one entry; True if it is a link to the same file."""
    original, made = source / entry, target / entry
    status = original.lstat()
    if stat.S_ISLNK(status.st_mode):
        made.symlink_to(_within(source, original))
        return False
    _check(original, status, account)
    if stat.S_ISDIR(status.st_mode):
        made.mkdir()
        made.chmod(0o755)
    elif stat.S_ISREG(status.st_mode):
        if account is not None and status.st_mode & stat.S_IROTH:
            try:
                os.link(original, made)
                return True
            except OSError:  # another file system, or too many links
                pass
        with open(original, "rb") as read, open(made, "xb") as written:
            while content := read.read(SLICE):
                written.write(content)
                yield Turn.WORKING
        made.chmod(0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    return False


def _within(source: Path, link: Path) -> str:
    """Where a symbolic link leads, as a way inside the runner: it must not lead from the copy back to the original."""
    end = os.path.realpath(link)
    if not Path(end).is_relative_to(source):
        raise CannotSettle(f"{link} points outside {source}, to {end}: replace it with what it points to")
    return os.path.relpath(end, link.parent)


def _check_way(source: Path, account: Account) -> None:
    """Raise CannotSettle if the account could put another runner there, on either way to it."""
    for top in {Path(os.path.abspath(source)): None, source.resolve(): None}:
        _check(top, top.stat(), account)
        for below, above in zip((top, *top.parents), top.parents, strict=False):
            status = above.stat()
            # In a sticky directory such as /tmp a user cannot replace the files of another user.
            if not status.st_mode & stat.S_ISVTX or account.user in (status.st_uid, below.lstat().st_uid):
                _check(above, status, account)


def _check(path: Path, status: os.stat_result, account: Account | None) -> None:
    if account is not None and may_change(account, status):
        raise CannotSettle(
            f"user {account.name}, as whom jobs run, can change {path}: make root the owner of GitHub's runner and of "
            "every directory above it, and let no other user write there"
        )
