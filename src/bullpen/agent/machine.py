"""Jobs run as a user of their own: on a machine that is ours alone, and on one that we share.

All that runs as this user is theirs, and ends with them. On the first, what they leave is looked for beyond their
places too; on the other, docker and /tmp belong to others as well, such as the jobs of another instance.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterable

from bullpen.agent.account import account_of, obstacle, settle_in
from bullpen.agent.baseline import Baseline, take_baseline
from bullpen.agent.config import Config
from bullpen.agent.docker import Docker
from bullpen.agent.hygiene import Aspect
from bullpen.agent.shared import PLACES, SharedPlaces
from bullpen.agent.sweep import Path
from bullpen.agent.turn import CannotSettle, Turn
from bullpen.engines.processes import mark_of


class Machine:
    """Only where the agent is told of such a user."""

    def __init__(self, config: Config, log: Callable[[str], None]) -> None:
        """Raise ValueError if jobs cannot run as the user that the agent is told of."""
        self.account = account_of(config.runner_user)
        self.beside: tuple[Aspect, ...] = ()  # what is cleaned beside the places
        self._config = config
        self._log = log
        self._docker: Docker | None = None

    @property
    def child(self) -> int | None:
        """The pid of a command of docker's that runs now."""
        return self._docker.child if self._docker is not None else None

    def move_in(self) -> None:
        """Give the user its places, with what the pre-runner script has put there."""
        directory = self._config.directory
        settle_in(self.account, directory, self._config.places.values())
        if (closed := obstacle(self.account, directory / "work")) is not None:
            raise CannotSettle(
                f"user {self.account.name} cannot reach {directory}: {closed} does not let others read it and pass"
            )

    def take_baseline(self, growing: Iterable[Path]) -> Generator[Turn, None, Baseline]:
        """What is there now, docker included if it is there by now and ours."""
        config, mark = self._config, mark_of(self._config.instance_id)
        if config.shares_machine:
            return take_baseline(config.cleaned, mark, growing, self.account.user)
        if (program := shutil.which("docker")) is not None:
            self._docker = docker = Docker(program)
            if trouble := (yield from docker.take_baseline()):
                self._log(f"docker does not answer, and should have nothing to clean: {trouble}")
            self.beside += (docker,)
        baseline = take_baseline(config.cleaned, mark, growing, self.account.user)
        roots = [baseline.root(name) for name in baseline.places]
        self.beside += (SharedPlaces(self.account.user, roots, PLACES),)
        return baseline
