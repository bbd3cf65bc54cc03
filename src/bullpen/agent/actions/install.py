"""An instance's own copy of GitHub's runner, which keeps its registration and its logs beside its programs.

What the jobs' user cannot change anyway is linked instead of copied: a runner has half a gigabyte. Programs belong to
us; the user may add files beside them, as the runner must, and cannot replace ours.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.turn import CannotSettle, Turn

if TYPE_CHECKING:
    from bullpen.agent.account import Account

PROGRAMS = ("config.sh", "run.sh")
OF_ANOTHER_LIFE = re.compile(r"\.runner.*|\.credentials.*|\.service|_diag|_work|run-helper\.sh")
"""What a runner writes once it is configured: not ours."""


def install(source: Path, target: Path, account: Account | None) -> Generator[Turn, None, tuple[Path, ...]]:
    """Copy the runner, and return those files that are links, relative to it. Raise CannotSettle."""
    if absent := [name for name in PROGRAMS if not (source / name).is_file()]:
        raise CannotSettle(
            f"there is no {absent[0]} in {source}: GitHub's runner must lie in github.runner-directory, "
            "or be fetched from github.runner-url"
        )
    linked: list[Path] = []
    try:
        target.mkdir()
        for entry in _entries(source):
            if not OF_ANOTHER_LIFE.fullmatch(entry.parts[0]):
                if _place(source / entry, target / entry, account):
                    linked.append(entry)
                yield Turn.WORKING
        protect(target, account)
    except OSError as exc:
        raise CannotSettle(f"GitHub's runner cannot be copied from {source}: {exc}") from exc
    return tuple(linked)


def protect(target: Path, account: Account | None) -> None:
    """Let the user of the jobs add files, and replace none of ours."""
    target.chmod(0o755)
    if account is not None:
        os.chown(target, -1, account.group)
        target.chmod(0o1775)


def open_up(target: Path) -> Iterator[Turn]:
    """Let everybody read and execute what lies there, and nobody write to it."""
    for entry in _entries(target):
        path = target / entry
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        yield Turn.WORKING


def _entries(top: Path) -> Iterator[Path]:
    """Everything below, relative to it, directories before what they hold."""
    for above, directories, files in os.walk(top):
        directories.sort()
        for name in (*directories, *sorted(files)):
            yield Path(above, name).relative_to(top)


def _place(source: Path, target: Path, account: Account | None) -> bool:
    """Make one entry; True if it is a link to the same file."""
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        target.symlink_to(os.readlink(source))
    elif stat.S_ISDIR(status.st_mode):
        target.mkdir()
        target.chmod(0o755)
    elif stat.S_ISREG(status.st_mode):
        if account is not None and _is_safe_from(account, status):
            try:
                os.link(source, target)
                return True
            except OSError:  # another file system, or too many links
                pass
        shutil.copyfile(source, target)
        target.chmod(0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    return False


def _is_safe_from(account: Account, status: os.stat_result) -> bool:
    """Whether the user can read the file and has no way to change it."""
    is_others = status.st_uid != account.user and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_others and bool(status.st_mode & stat.S_IROTH)
