"""System users that nothing runs as, for jobs to run as: each lent once, for a cleaning ends whatever runs as it, and
whatever a daemon keeps for it."""

from __future__ import annotations

import fcntl
import os
import pwd
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from bullpen.agent.account import account_of
from bullpen.agent.cleaning.crontabs import UserCrontabs
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.host.processes import descendants

NAMES = (
    *("games", "news", "uucp", "lp", "mail", "irc", "list", "backup", "proxy", "man", "www-data"),
    *("sys", "bin", "daemon", "nobody"),
)
"""Of every Debian and Ubuntu, each with a group of its own."""

PATIENCE = 400.0  # seconds; no test has its users for half as long, not even on a busy machine


@contextmanager
def lent(count: int) -> Iterator[tuple[str, ...]]:
    """So many, until the block ends. None if we are not root: then jobs run as we do. Those that other tests have are
    waited for; skip if there are not enough, or fail where all must be tested."""
    if os.geteuid() != 0:
        yield ()
        return
    give_up = time.monotonic() + PATIENCE
    while True:
        with ExitStack() as stack:  # all or none: two that wait for each other's would wait for ever
            found = _taken(count, stack)
            if len(found) == count:
                yield found
                return
        if time.monotonic() >= give_up:
            why = f"{count} system users are needed that no other test uses, and there are {len(found)}"
            if os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1":
                pytest.fail(f"BULLPEN_REQUIRE_ENGINES=1, and {why}")
            pytest.skip(f"NOT TESTED: {why}")
        time.sleep(0.1)


def lent_for_good() -> str:
    """One, until this process ends; empty if we are not root, or if there is none."""
    return next(iter(_taken(1, ExitStack()) if os.geteuid() == 0 else ()), "")  # never unwound: the locks stay


def _taken(count: int, stack: ExitStack) -> tuple[str, ...]:
    found: list[str] = []
    for name in NAMES:
        if len(found) == count:
            break
        lock = os.open(Path(tempfile.gettempdir(), f"bullpen-test-user-{name}"), os.O_RDONLY | os.O_CREAT, 0o600)
        stack.callback(os.close, lock)
        with suppress(KeyError, BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not descendants(None, "no mark", pwd.getpwnam(name).pw_uid) and not any(_timers(name)):
                found.append(name)
    return tuple(found)


def _timers(name: str) -> Iterator[object]:
    """These tests must not remove a crontab or mail that a user of this machine has."""
    return UserCrontabs(account_of(name)).differences(KeepList())
