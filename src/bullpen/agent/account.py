"""The user as whom jobs run: never root, and not the agent's own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from bullpen.host.subordinate_ids import FILE, Uids, shared_by, uids_of
from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    user: int
    group: int
    groups: tuple[int, ...]  # all of them, such as docker's
    subordinate: tuple[range, ...] = ()  # user ids that it may use in user namespaces

    def owns(self, user: int) -> bool:
        """Whether what has this user id is the account's."""
        return user in Uids(self.user, self.subordinate)


def account_of(name: str) -> Account:
    """Raise ValueError where jobs cannot or must not run as this user."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"user {name!r} does not exist: jobs cannot run as it") from None
    if found.pw_uid in (0, os.geteuid()):
        raise ValueError(f"jobs must not run as {name!r}: it is root, or the user that runs the agent")
    if (shared := shared_by(found.pw_uid)) is not None:
        other, ids = shared
        raise ValueError(
            f"jobs must not run as {name!r}: {FILE} gives user ids {ids.start} to {ids.stop - 1} to {other} as well, "
            "so a file with one of them could belong to either user; give each user ids of its own"
        )
    groups = tuple(os.getgrouplist(name, found.pw_gid))
    return Account(name, found.pw_uid, found.pw_gid, groups, uids_of(found.pw_uid).ranges)


def obstacle(account: Account, path: Path) -> Path | None:
    """The directory above `path` that the account may not list and pass through. GitHub's runner begins with listing
    each of them, and does nothing where it cannot."""
    for above in reversed(path.resolve().parents):
        status = above.stat()
        needed = 0o500 if status.st_uid == account.user else 0o050 if status.st_gid in account.groups else 0o005
        if status.st_mode & needed != needed:
            return above
    return None


def may_change(account: Account, status: os.stat_result) -> bool:
    """Whether the account can write to a file or directory, or let itself do so."""
    is_open = status.st_mode & (0o022 if status.st_gid in account.groups else 0o002)
    return account.owns(status.st_uid) or bool(is_open)


def settle_in(account: Account, directory: Path, places: Iterable[Path]) -> None:
    """Give the places to the account, with all that the pre-runner script has put there, and let it pass to them."""
    os.chown(directory, -1, account.group)
    directory.chmod(0o750)  # others get no access: what jobs write beside their places may be open to all
    for place in places:
        # Each as soon as it is listed: a process that the script left may remove or add files meanwhile.
        inside = (Path(above, name) for above, names, files in os.walk(place) for name in (*names, *files))
        for path in chain((place,), inside):
            os.chown(path, account.user, account.group, follow_symlinks=False)
