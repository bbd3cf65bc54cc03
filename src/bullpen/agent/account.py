"""The user as whom jobs run: never root, and not we."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    user: int
    group: int
    groups: tuple[int, ...]  # all of them, such as docker's

    @property
    def environment(self) -> dict[str, str]:
        return {"USER": self.name, "LOGNAME": self.name}


def account_of(name: str) -> Account:
    """Raise ValueError where jobs cannot or must not run as this user."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"there is no user {name!r} for jobs to run as") from None
    if found.pw_uid in (0, os.geteuid()):
        raise ValueError(f"jobs must not run as {name!r}: its user is root's or our own")
    return Account(name, found.pw_uid, found.pw_gid, tuple(os.getgrouplist(name, found.pw_gid)))


def obstacle(account: Account, path: Path) -> Path | None:
    """The directory above `path` that does not let the account pass."""
    for above in reversed(path.resolve().parents):
        status = above.stat()
        needed = 0o100 if status.st_uid == account.user else 0o010 if status.st_gid in account.groups else 0o001
        if not status.st_mode & needed:
            return above
    return None


def settle_in(account: Account, directory: Path, places: Iterable[Path]) -> None:
    """Give the places to the account, with all that the pre-runner script has put there, and let it pass to them."""
    directory.chmod(0o711)
    for place in places:
        _give(place, account)
        for above, directories, files in os.walk(place):
            for name in (*directories, *files):
                _give(Path(above, name), account)


def _give(path: Path, account: Account) -> None:
    os.chown(path, account.user, account.group, follow_symlinks=False)
