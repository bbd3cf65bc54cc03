"""What daemons would do for the jobs' user when none of its processes is left, as an aspect of what is cleaned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import Turn
from bullpen.host import scheduled_jobs

if TYPE_CHECKING:
    from bullpen.agent.account import Account


class UserCrontabs:
    """Those of one user. The baseline has none: all of them are removed."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def stop(self) -> None:
        """Remove them all. Raise OSError, with the name of the first that resists."""
        scheduled_jobs.clear(self._account.name, self._account.user)

    def sweep(self, keep: KeepList, troubles: dict[str, str]) -> Iterator[Turn]:
        try:
            self.stop()
        except OSError as failure:
            troubles[str(failure.filename)] = str(failure.strerror).lower()
        yield Turn.WORKING

    def differences(self, keep: KeepList) -> Iterator[str | Turn]:
        for path in scheduled_jobs.kept_for(self._account.name, self._account.user):
            yield f"{path} was left behind"
