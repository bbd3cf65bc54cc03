"""What daemons would do for the jobs' user when none of its processes is left: crontabs, at-jobs, a login that lingers.

A job has them written by programs with more rights than its own, into directories that it cannot list. Nobody but jobs
has this user, so whatever lies there for it is a job's: it is owned by the user, or has its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from bullpen.agent.keep import KeepList
from bullpen.agent.turn import Turn

if TYPE_CHECKING:
    from bullpen.agent.account import Account

SPOOLS = (
    *("/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron"),  # Debian; SUSE; Red Hat, Amazon Linux
    *("/var/spool/cron/atjobs", "/var/spool/cron/atspool", "/var/spool/at", "/var/spool/at/spool"),
    *("/var/lib/systemd/linger", "/var/mail"),  # what cron's jobs print is sent to the user
)
SECOND = 1_000_000_000  # nanoseconds


class Timers:
    """Those of one user. None is anybody's baseline."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def stop(self) -> None:
        """Remove them all. Raise OSError, with the name of the first that resists."""
        for spool in SPOOLS:
            for path in (found := self._found(spool)):
                with suppress(FileNotFoundError):  # its time has come: its daemon has taken it
                    os.unlink(path)
            if found:
                # cron reads its tables anew when this time differs, in whole seconds, from the one that it saw. It may
                # have seen one of these in the second that we are in.
                seen = os.stat(spool)
                os.utime(spool, ns=(seen.st_atime_ns, seen.st_mtime_ns + SECOND))

    def sweep(self, keep: KeepList, troubles: dict[str, str]) -> Iterator[Turn]:
        try:
            self.stop()
        except OSError as failure:
            troubles[str(failure.filename)] = str(failure.strerror).lower()
        yield Turn.WORKING

    def differences(self, keep: KeepList) -> Iterator[str | Turn]:
        for spool in SPOOLS:
            for path in self._found(spool):
                yield f"{path} was left behind"

    def _found(self, spool: str) -> list[str]:
        try:
            names = sorted(os.listdir(spool))
        except FileNotFoundError:
            return []  # no such daemon here
        return [path for name in names if self._is_theirs(path := os.path.join(spool, name))]

    def _is_theirs(self, path: str) -> bool:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(status.st_mode):
            return False  # its daemon's, whatever it is called
        return os.path.basename(path) == self._account.name or status.st_uid == self._account.user
