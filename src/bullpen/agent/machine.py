"""A machine that is ours alone: jobs run as a user of their own, and what they leave is looked for beyond their places.

Only where the agent is told of such a user. On a machine that it shares, docker and /tmp belong to others as well.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator

from bullpen.agent.account import account_of, settle_in
from bullpen.agent.baseline import Baseline, take_baseline
from bullpen.agent.config import LOGS, Config
from bullpen.agent.docker import Docker
from bullpen.agent.hygiene import Aspect
from bullpen.agent.shared import PLACES, SharedPlaces
from bullpen.agent.turn import Turn
from bullpen.engines.processes import mark_of


class OwnMachine:
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

    def settle(self) -> Generator[Turn, None, Baseline]:
        """What the pre-runner script left becomes the baseline, docker included if it is there by now."""
        config, account = self._config, self.account
        settle_in(account, config.directory, config.places.values())
        if (program := shutil.which("docker")) is not None:
            self._docker = docker = Docker(program)
            if trouble := (yield from docker.take_baseline()):
                self._log(f"docker does not answer, and should have nothing to clean: {trouble}")
            self.beside += (docker,)
        baseline = take_baseline(config.cleaned, mark_of(config.instance_id), LOGS, account.user)
        roots = [baseline.root(name) for name in baseline.places]
        self.beside += (SharedPlaces(account.user, roots, PLACES),)
        return baseline
