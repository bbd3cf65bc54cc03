"""As whom the jobs of a machine run, where that is not as we do, which only root can choose.

Each machine has a user of its own for as long as it lives. So it is the kernel that keeps its jobs away from the files,
the processes and the secrets of other machines; and whatever runs as that user is the machine's, and ends with it.
"""

import os
import pwd
from collections.abc import Collection

from bullpen.config import Settings

SETTING = "local.runner-users"


class Unusable(Exception):
    """The settings name users as whom jobs cannot run."""


def offered(settings: Settings) -> tuple[str, ...] | None:
    """The users there are; None if jobs run as we do. Raise Unusable."""
    names = settings.local.runner_users
    if os.geteuid() != 0 or (not names and not settings.on_github):
        return None
    if not names:
        raise Unusable(f"GitHub's runner refuses to run as root: {SETTING} must name users for jobs to run as")
    owners: dict[str, str] = {}
    for name in (names := tuple(dict.fromkeys(names))):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise Unusable(f"{SETTING}: there is no user {name!r}") from None
        if found.pw_uid == 0:
            raise Unusable(f"{SETTING}: {name!r} is root, as whom no job must run")
        for number in (f"user id {found.pw_uid}", f"group id {found.pw_gid}"):
            if (other := owners.setdefault(number, name)) != name:
                raise Unusable(
                    f"{SETTING}: {other!r} and {name!r} share {number}: jobs could change each other's files"
                )
    return names


def free(users: Collection[str] | None, taken: Collection[str], most: int) -> list[str]:
    """A user for each of at most so many new machines, which may be none; empty names: as we do."""
    return [""] * most if users is None else [user for user in users if user not in taken][:most]


def number_of(user: str) -> int | None:
    """None if it is nobody's, or has been removed."""
    try:
        return pwd.getpwnam(user).pw_uid if user else None
    except KeyError:
        return None
