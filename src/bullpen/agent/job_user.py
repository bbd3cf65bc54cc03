"""Jobs run as a user of their own: on a machine that is the instance's alone, and on one that instances share.

All that runs as this user is theirs, and ends with them; so does what it has in places that users share, and what it
has told daemons to do later. On a machine that is shared, docker belongs to others as well, such as another instance,
and the user may have been an earlier instance's.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from itertools import chain

from bullpen.agent.account import account_of, obstacle, settle_in
from bullpen.agent.cleaning import descriptors
from bullpen.agent.cleaning.baseline import Baseline, take_baseline
from bullpen.agent.cleaning.clean import Aspect
from bullpen.agent.cleaning.crontabs import UserCrontabs
from bullpen.agent.cleaning.docker import Docker
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.shared_dirs import LOGINS, PLACES, SharedPlaces
from bullpen.agent.cleaning.slices import CannotSettle, Turn
from bullpen.agent.cleaning.sysv_ipc import SystemV
from bullpen.agent.config import Config
from bullpen.host.processes import TreeSurvived, end_tree, mark_of, name_of, running_as
from bullpen.host.sweep import Path

ENDED_WITHIN = 2.0  # seconds for what earlier jobs left running
LEFT_WITHIN = 15.0  # seconds for what the script left as the user: systemd ends a login's last processes after ten


class JobUserMachine:
    """Only where the agent's configuration names such a user."""

    def __init__(self, config: Config, log: Callable[[str], None]) -> None:
        """Raise ValueError if jobs cannot run as the user that the configuration names."""
        self.account = account_of(config.runner_user)
        self.beside: tuple[Aspect, ...] = ()  # what is cleaned beside the places
        # Jobs of other instances outlive a cleaning of this one, with what its jobs have passed to them.
        self.renews = tuple(config.places) if config.shares_machine else ()
        self._config = config
        self._mark = mark_of(config.instance_id)
        self._log = log
        self._docker: Docker | None = None
        self._timers = UserCrontabs(self.account)

    @property
    def child(self) -> int | None:
        """The pid of a command of docker's that runs now."""
        return self._docker.child if self._docker is not None else None

    def clear(self) -> Iterator[Turn]:
        """Before the pre-runner script: rid a shared machine of what earlier instances of the user left: one that died
        was not cleaned. Raise CannotSettle."""
        if not self._config.shares_machine:
            return
        user = self.account.user
        try:
            self._timers.stop()  # first, or cron would start again what is ended here
            end_tree(None, self._mark, patience=ENDED_WITHIN, user=user)
        except (OSError, TreeSurvived) as exc:
            raise CannotSettle(f"what earlier jobs of user {self.account.name} left cannot be ended: {exc}") from exc
        earlier: tuple[Aspect, ...] = (SystemV(user, empty=True), self._shared((), empty=True), *self._holders())
        troubles: dict[str, str] = {}
        for aspect in earlier:
            yield from aspect.sweep(KeepList(), troubles)
        for found in chain.from_iterable(aspect.differences(KeepList()) for aspect in earlier):
            if isinstance(found, str):
                why = "; ".join(f"{what}: {trouble}" for what, trouble in troubles.items())
                raise CannotSettle(f"earlier jobs of user {self.account.name}: {found}; remove it ({why})")
            yield found

    def move_in(self) -> None:
        """Give the user its places, with what the pre-runner script has put there."""
        directory = self._config.directory
        settle_in(self.account, directory, self._config.places.values())
        if (closed := obstacle(self.account, directory / "work")) is not None:
            raise CannotSettle(
                f"user {self.account.name} cannot reach {directory}: {closed} does not let others read and enter it"
            )

    def take_baseline(self, growing: Iterable[Path]) -> Generator[Turn, None, Baseline]:
        """What is there now, docker included if the machine has it and is not shared. Raise CannotSettle."""
        config, user = self._config, self.account.user
        yield from self._await_no_process()
        self.beside = (self._timers, SystemV(user))
        if not config.shares_machine and (program := shutil.which("docker")) is not None:
            self._docker = docker = Docker(program)
            if trouble := (yield from docker.take_baseline()):
                self._log(f"docker does not answer; assuming that it has nothing to clean: {trouble}")
            self.beside += (docker,)
        baseline = take_baseline(config.cleaned, self._mark, growing, user)
        # The places are in it. Their own directories do not last, and another one may be given their number.
        self.beside += (self._shared([baseline.root("instance")]), *self._holders())
        return baseline

    def _await_no_process(self) -> Iterator[Turn]:
        """Before the first job nothing runs as its user. A process that did could not be spared later: a job can take
        it over, by ptrace for one, and it would still be the process that it was. Raise CannotSettle."""
        until = time.monotonic() + LEFT_WITHIN
        while left := running_as(self.account.user):
            if time.monotonic() >= until:
                shown = ", ".join(f"process {one.pid} ({name_of(one)})" for one in left)
                raise CannotSettle(
                    f"the pre-runner script left {shown}, which runs as {self.account.name}, the user of the jobs: a "
                    "job could take it over and stay in it after its run; run it as another user, or end it in the "
                    "script"
                )
            yield Turn.WAITING

    def _holders(self) -> tuple[Aspect, ...]:
        """What finds open files of the user in processes of other users. Needed only on a shared machine."""
        if not self._config.shares_machine:
            return ()
        if not descriptors.may_see_open_files():
            self._log("has no CAP_SYS_PTRACE: open files that jobs pass to other users' processes are not detected")
            return ()
        return (descriptors.Holders(self.account),)

    def _shared(self, spare: Collection[tuple[int, int]], *, empty: bool = False) -> SharedPlaces:
        places = (*PLACES, f"{LOGINS}/{self.account.user}")
        return SharedPlaces(self.account, spare, places, shares_machine=self._config.shares_machine, empty=empty)
