"""The user ids that are one user's: its own, and those that it may use in user namespaces, as rootless containers do.

A process or a file that has such an id is the user's, although it shows another number. /etc/subuid gives each user
ranges of them; ids that a user gets elsewhere (by `sssd`) are not seen.
"""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from functools import lru_cache

from bullpen.lazy_dataclass import dataclass

FILE = "/etc/subuid"


@dataclass(frozen=True, slots=True)
class Uids:
    user: int
    ranges: tuple[range, ...] = ()

    def __contains__(self, uid: int) -> bool:
        return uid == self.user or (any(uid in one for one in self.ranges) and not _has_an_account(uid))


def uids_of(user: int) -> Uids:
    """Without those that another user has as well: what has them may be either's. Raise OSError."""
    others = [found for owner, found in _ranges() if owner != user]
    ours = [found for owner, found in _ranges() if owner == user]
    return Uids(user, tuple(part for one in ours for part in _without(one, others)))


def shared_by(user: int) -> tuple[str, range] | None:
    """Another user that has subordinate ids of this user's, and which; None if there is none. Raise OSError."""
    ours = [found for owner, found in _ranges() if owner == user]
    for owner, found in _ranges():
        for one in ours:
            common = range(max(one.start, found.start), min(one.stop, found.stop))
            if owner != user and common:
                return _name_of(owner), common
    return None


def _ranges() -> Iterator[tuple[int, range]]:
    """The user id and its range, of each line that means anything. Id 0 is never a subordinate."""
    try:
        with open(FILE, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        owner, _, rest = line.strip().partition(":")
        start, _, count = rest.partition(":")
        number = _number_of(owner)
        if number is not None and start.isdecimal() and count.isdecimal():
            yield number, range(max(1, int(start)), int(start) + int(count))


def _without(one: range, others: list[range]) -> list[range]:
    parts = [one]
    for other in others:
        below = [range(part.start, min(part.stop, other.start)) for part in parts]
        above = [range(max(part.start, other.stop), part.stop) for part in parts]
        parts = [part for part in (*below, *above) if part]
    return parts


def _number_of(owner: str) -> int | None:
    if owner.isdecimal():
        return int(owner)
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        return None


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


@lru_cache(maxsize=1024)
def _has_an_account(uid: int) -> bool:
    """A range that reaches into ids of real users does not make what is theirs another's."""
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False
