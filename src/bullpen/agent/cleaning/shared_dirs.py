"""What the jobs' user leaves in directories that all users share. Whatever lies in a directory of the user's is the
user's; of what else others have, nothing is touched."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress

from bullpen.agent.account import Account, may_change
from bullpen.agent.cleaning import attributes
from bullpen.agent.cleaning.attributes import Attributes
from bullpen.agent.cleaning.baseline import Fingerprint, FoundEntry, walk, where
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import CannotSettle, Turn
from bullpen.host.sweep import STRIDE, EntryFate, Path, shown, sweep

PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
LOGINS = "/run/user"  # has a directory for every user that is logged in, by its number
MOUNTS = "/proc/self/mountinfo"
MOST = 50_000  # entries of the user's at boot, which every cleaning compares; a second's work


class SharedPlaces:
    """Removes what the user has left in these directories. Entries that the user has when this object is made stay, as
    do the directories `spare`, which other modules clean. A cleaning removes what is new inside such an entry, and
    reports what was changed or is missing as a difference.

    On a shared machine other users may have very many files there. Of their directories the cleaning reads only those
    that the user can write to, not those that merely lead to one.
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
        """`empty`: nothing of it stays. Raise CannotSettle if the user has more than can be looked through."""
        self._account = account
        self._spare = frozenset(spare)
        self._candidates = places
        self._shares_machine = shares_machine
        self._known: dict[Path, Fingerprint | None] = {}  # None: it cannot be read
        self._attributes: dict[Path, Attributes] = {}
        if not empty:
            self._take_baseline()

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
        for place in self._places():
            missing = {path: None for path in self._known if path[0] == place}
            with suppress(FileNotFoundError):  # the place is gone since, with all that was in it
                for number, sight in enumerate(walk(place, place, self._enters)):
                    missing.pop(sight.path, None)
                    if difference := self._compare(sight):
                        yield f"{shown(sight.path)} {difference}"
                    elif number % STRIDE == 0:
                        yield Turn.WORKING
                yield from (f"{shown(path)} is missing" for path in missing)

    def _take_baseline(self) -> None:
        for place in self._places():
            with suppress(FileNotFoundError):  # gone since
                # Parents come first: a directory of the user's is known before it is entered.
                for sight in walk(place, place, self._enters_at_boot):
                    if not self._must_go(sight):
                        continue
                    self._known[sight.path] = Fingerprint.of(sight.status) if sight.status is not None else None
                    self._attributes[sight.path] = sight.attributes
                    if len(self._known) > MOST:
                        raise CannotSettle(
                            f"user {self._account.name} has more than {MOST} files and directories in places of all "
                            f"users, such as {place}, after the pre-runner script, which are too many to compare after "
                            "each run; let the script remove them, or put them elsewhere"
                        )

    def _enters_at_boot(self, path: Path, status: os.stat_result) -> bool:
        return self._judge(path, status) in (EntryFate.GOES, EntryFate.STAYS_INSIDE_JUDGED)

    def _enters(self, path: Path, status: os.stat_result) -> bool:
        return self._judge(path, status) is EntryFate.STAYS_INSIDE_JUDGED

    def _judge(self, path: Path, status: os.stat_result) -> EntryFate:
        if where(status) in self._spare:
            return EntryFate.STAYS
        is_directory = stat.S_ISDIR(status.st_mode)
        if path in self._known:
            return EntryFate.STAYS_INSIDE_JUDGED if is_directory else EntryFate.STAYS
        if self._account.owns(status.st_uid) or path[:-1] in self._known:
            return EntryFate.GOES
        is_open = not self._shares_machine or may_change(self._account, status)
        return EntryFate.STAYS_INSIDE_JUDGED if is_open and is_directory else EntryFate.STAYS

    def _compare(self, sight: FoundEntry) -> str:
        """How it differs from what was there when this was made; empty: it does not."""
        if self._must_go(sight):
            return f"cannot be read: {sight.trouble}" if sight.trouble else "was left behind"
        was = self._known.get(sight.path)
        if was is None or sight.status is None:
            return ""
        if sight.trouble:
            return f"cannot be read: {sight.trouble}"
        changed = was.changes(Fingerprint.of(sight.status))
        changed += attributes.changes(self._attributes.get(sight.path, attributes.NONE), sight.attributes)
        return f"was changed: {', '.join(changed)}" if changed else ""

    def _must_go(self, sight: FoundEntry) -> bool:
        if len(sight.path) == 1:
            return False
        if sight.status is None:
            # A user's mount (FUSE) lets not even root look. What lies below the user's own waits for the next job.
            is_ours = not self._shares_machine or "/".join(sight.path) in _mounted_by(self._account.user)
            return is_ours and sight.path not in self._known
        return self._judge(sight.path, sight.status) is EntryFate.GOES

    def _places(self) -> list[str]:
        """Those that there are: one of the user's own comes and goes with its logins."""
        return list(dict.fromkeys(os.path.realpath(place) for place in self._candidates if os.path.isdir(place)))


def _mounted_by(user: int) -> list[str]:
    """Where this user has mounted something without being root."""
    with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.rstrip("\n").split(" ") for line in file]
    points = (row[4] for row in rows if f"user_id={user}" in row[-1].split(","))
    return [re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point) for point in points]
