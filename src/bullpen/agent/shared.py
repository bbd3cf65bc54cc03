"""What the jobs' user leaves in directories that all users share. Whatever lies in a directory of the user's is the
user's; of what else others have, nothing is touched."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress

from bullpen.agent.account import Account, may_change
from bullpen.agent.baseline import Sight, look, where
from bullpen.agent.keep import KeepList
from bullpen.agent.turn import Turn
from bullpen.engines.sweep import STRIDE, Fate, Path, shown, sweep

PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
LOGINS = "/run/user"  # has a directory for every user that is logged in, by its number
MOUNTS = "/proc/self/mountinfo"


class SharedPlaces:
    """What the user has when this is made stays, as do the directories `spare`, which others clean.

    On a machine that we share, what others have there may be vast: of their directories only those are looked into that
    the user can write to, not those that merely lead to such.
    """

    def __init__(
        self,
        account: Account,
        spare: Collection[tuple[int, int]],
        places: Collection[str] = PLACES,
        *,
        shares_machine: bool = False,
        empty: bool = False,
    ) -> None:
        """`empty`: nothing of it stays."""
        self._account = account
        self._spare = frozenset(spare)
        self._candidates = places
        self._shares_machine = shares_machine
        self._known: frozenset[Path] = frozenset()
        if not empty:
            self._known = frozenset(sight.path for sight in self._left() if sight is not None)

    def sweep(self, keep: KeepList, troubles: dict[str, str]) -> Iterator[Turn]:
        for place in self._places():
            try:
                top = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue  # gone since
            try:
                for _ in sweep(top, place, self._judge, troubles):
                    yield Turn.WORKING
            finally:
                os.close(top)

    def differences(self, keep: KeepList) -> Iterator[str | Turn]:
        for sight in self._left():
            if sight is None:
                yield Turn.WORKING
            else:
                trouble = f"cannot be looked into: {sight.trouble}" if sight.trouble else "was left behind"
                yield f"{shown(sight.path)} {trouble}"

    def _judge(self, path: Path, status: os.stat_result) -> Fate:
        if where(status) in self._spare or path in self._known:
            return Fate.STAYS
        if status.st_uid == self._account.user:
            return Fate.GOES
        is_open = not self._shares_machine or may_change(self._account, status)
        return Fate.STAYS_INSIDE_JUDGED if is_open and stat.S_ISDIR(status.st_mode) else Fate.STAYS

    def _left(self) -> Iterator[Sight | None]:
        """What is the user's, or may be, and need not stay, and None now and then."""
        for place in self._places():
            with suppress(FileNotFoundError):  # gone since
                for number, sight in enumerate(look(place, place, self._enters)):
                    if sight.path != (place,) and self._must_go(sight):
                        yield sight
                    elif number % STRIDE == 0:
                        yield None

    def _must_go(self, sight: Sight) -> bool:
        if sight.status is None:
            # A user's mount (FUSE) lets not even root look. What lies below our user's waits for the next job.
            is_ours = not self._shares_machine or "/".join(sight.path) in _mounted_by(self._account.user)
            return is_ours and sight.path not in self._known
        return self._judge(sight.path, sight.status) is Fate.GOES

    def _enters(self, path: Path, status: os.stat_result) -> bool:
        return self._judge(path, status) is Fate.STAYS_INSIDE_JUDGED

    def _places(self) -> list[str]:
        """Those that there are: one of the user's own comes and goes with its logins."""
        return list(dict.fromkeys(os.path.realpath(place) for place in self._candidates if os.path.isdir(place)))


def _mounted_by(user: int) -> list[str]:
    """Where this user has mounted something without being root."""
    with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.rstrip("\n").split(" ") for line in file]
    points = (row[4] for row in rows if f"user_id={user}" in row[-1].split(","))
    return [re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point) for point in points]
