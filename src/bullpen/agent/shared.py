"""What the jobs' user leaves in directories that all users share. Whatever lies in a directory of the user's is the
user's; of what else others have, nothing is touched."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress

from bullpen.agent.account import Account, may_change
from bullpen.agent.baseline import look, where
from bullpen.agent.keep import KeepList
from bullpen.agent.sweep import STRIDE, Fate, Path, shown, sweep
from bullpen.agent.turn import Turn

PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")


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
            self._known = frozenset(path for path in self._left() if path)

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
        for path in self._left():
            yield f"{shown(path)} was left behind" if path else Turn.WORKING

    def _judge(self, path: Path, status: os.stat_result) -> Fate:
        if where(status) in self._spare or path in self._known:
            return Fate.STAYS
        if status.st_uid == self._account.user:
            return Fate.GOES
        is_open = not self._shares_machine or may_change(self._account, status)
        return Fate.STAYS_INSIDE_JUDGED if is_open and stat.S_ISDIR(status.st_mode) else Fate.STAYS

    def _left(self) -> Iterator[Path]:
        """What belongs to the user and need not stay, and an empty path now and then."""
        for place in self._places():
            with suppress(FileNotFoundError):  # gone since
                for number, (path, status, _) in enumerate(look(place, place, self._enters)):
                    if path != (place,) and self._judge(path, status) is Fate.GOES:
                        yield path
                    elif number % STRIDE == 0:
                        yield ()

    def _enters(self, path: Path, status: os.stat_result) -> bool:
        return self._judge(path, status) is Fate.STAYS_INSIDE_JUDGED

    def _places(self) -> list[str]:
        """Those that there are: one of the user's own comes and goes with its logins."""
        return list(dict.fromkeys(os.path.realpath(place) for place in self._candidates if os.path.isdir(place)))
