"""What the runner's user leaves in directories that all users share. Files of others are not looked at twice."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator

from bullpen.agent.baseline import look, where
from bullpen.agent.keep import KeepList
from bullpen.agent.sweep import STRIDE, Fate, Path, shown, sweep
from bullpen.agent.turn import Turn

PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock", "/var/spool/cron")


class SharedPlaces:
    """Made at boot: what belongs to the user by then stays, as do the directories `spare`, which others clean."""

    def __init__(self, user: int, spare: Collection[tuple[int, int]], places: tuple[str, ...] = PLACES) -> None:
        self._user = user
        self._spare = frozenset(spare)
        self._places = list(dict.fromkeys(os.path.realpath(place) for place in places if os.path.isdir(place)))
        self._known: frozenset[Path] = frozenset()
        self._known = frozenset(path for path in self._left() if path)

    def sweep(self, keep: KeepList, troubles: dict[str, str]) -> Iterator[Turn]:
        for place in self._places:
            top = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
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
        if status.st_uid == self._user:
            return Fate.GOES
        return Fate.STAYS_INSIDE_JUDGED if stat.S_ISDIR(status.st_mode) else Fate.STAYS

    def _left(self) -> Iterator[Path]:
        """What belongs to the user and need not stay, and an empty path now and then."""
        for place in self._places:
            for number, sight in enumerate(look(place, place, self._enters), 1):
                if self._judge(sight.path, sight.status) is Fate.GOES:
                    yield sight.path
                elif number % STRIDE == 0:
                    yield ()

    def _enters(self, path: Path, status: os.stat_result) -> bool:
        return self._judge(path, status) is Fate.STAYS_INSIDE_JUDGED
