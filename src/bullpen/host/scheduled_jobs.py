"""What daemons would do for the jobs' user when none of its processes is left: crontabs, at-jobs, a login that lingers.

A job has them written by programs with more rights than its own, into directories that it cannot list. Only jobs run as
this user, so whatever is there for the user is a job's: it is owned by the user, or has its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

SPOOLS = (
    *("/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron"),  # Debian; SUSE; Red Hat, Amazon Linux
    *("/var/spool/cron/atjobs", "/var/spool/cron/atspool", "/var/spool/at", "/var/spool/at/spool"),
    *("/var/lib/systemd/linger", "/var/mail"),  # what cron's jobs print is sent to the user
)
SECOND = 1_000_000_000  # nanoseconds


def kept_for(name: str, user: int) -> Iterator[str]:
    """What lies there for the user of this name and number. Raise OSError."""
    for spool in SPOOLS:
        yield from _found(spool, name, user)


def clear(name: str, user: int) -> bool:
    """Remove all of it, and say whether there was any. Raise OSError, with the name of the first that resists."""
    was_any = False
    for spool in SPOOLS:
        for path in (found := _found(spool, name, user)):
            with suppress(FileNotFoundError):  # its time has come: its daemon has taken it
                os.unlink(path)
        if found:
            was_any = True
            # cron reads its tables again when this time differs, in whole seconds, from the one that it saw. It may
            # have seen one of these in this very second.
            seen = os.stat(spool)
            os.utime(spool, ns=(seen.st_atime_ns, seen.st_mtime_ns + SECOND))
    return was_any


def _found(spool: str, name: str, user: int) -> list[str]:
    try:
        entries = sorted(os.listdir(spool))
    except FileNotFoundError:
        return []  # no such daemon here
    return [path for entry in entries if _is_theirs(path := os.path.join(spool, entry), name, user)]


def _is_theirs(path: str, name: str, user: int) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(status.st_mode):
        return False  # its daemon's, whatever it is called
    return os.path.basename(path) == name or status.st_uid == user
