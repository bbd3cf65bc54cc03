"""The boot of an instance: clear what earlier jobs left, run the pre-runner script, record the baseline.

begin ──▶ clear (only on a shared machine) ──▶ script ──▶ settle: GitHub's runner, the baseline ──▶ booted
                         └─────────────────────────┴────────────────────────────────┴──▶ failed, with the reason
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from bullpen.agent.child_process import Child, start_script
from bullpen.agent.cleaning.baseline import Baseline, take_baseline
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import CannotSettle, Slices, Turn
from bullpen.agent.config import LOGS, Config
from bullpen.agent.progress import AgentProgress
from bullpen.host.processes import mark_of
from bullpen.host.sweep import Path

if TYPE_CHECKING:
    from bullpen.agent.account import Account
    from bullpen.agent.github.runner import Actions
    from bullpen.agent.job_user import JobUserMachine


class BootTask:
    """Runs once. What it finds and makes ready is there for the other tasks, from its end on."""

    def __init__(self, config: Config, log: Callable[[str], None], reads: Callable[[Child], None]) -> None:
        """`reads` takes a child whose output is to be read."""
        self.keep = KeepList()
        self.baseline: Baseline | None = None
        self.machine: JobUserMachine | None = None
        self.actions: Actions | None = None
        self._config, self._log, self._reads = config, log, reads
        self._script: Child | None = None
        self._script_ends_at = 0.0
        self._work: Slices[Baseline] | None = None

    @property
    def account(self) -> Account | None:
        return self.machine.account if self.machine is not None else None

    def begin(self, progress: AgentProgress) -> AgentProgress:
        progress, config = progress.booting(), self._config
        try:
            self.keep = KeepList.of(config.keep)
            if config.runner_user:
                from bullpen.agent.job_user import JobUserMachine  # what it needs takes time to load

                self.machine = JobUserMachine(config, self._log)
            if config.ci == "github":
                from bullpen.agent.github.runner import Actions

                self.actions = Actions(config, self.account, self._log)
        except ValueError as exc:
            return self._fail(progress, str(exc))
        self._work = Slices(self._boot())
        return self.check(progress)

    def must_be_checked_at(self) -> float | None:
        if self._script is not None:
            return self._script_ends_at
        return self._work.at if self._work is not None else None

    def awaited(self) -> list[int]:
        pids = [self._script.pid] if self._script is not None else []
        if self.machine is not None and self.machine.child is not None:
            pids.append(self.machine.child)
        return pids

    def check(self, progress: AgentProgress) -> AgentProgress:
        if self._work is None:
            return progress
        if self._script is not None:
            self._work.at = 0.0  # what woke the loop may be the end of the script
        try:
            self.baseline = self._work.go_on()
        except CannotSettle as exc:
            return self._fail(progress, str(exc))
        except Exception as exc:
            return self._fail(progress, f"the state of the machine at boot cannot be recorded: {exc}")
        if self.baseline is None:
            return progress
        self._work = None
        self._log("booted")
        return progress.booted(version=self.actions.version if self.actions is not None else "")

    def give_up(self, progress: AgentProgress, why: str) -> AgentProgress:
        """End a script that still runs; the boot has failed with it."""
        return self._fail(progress, why) if self._script is not None else progress

    def _fail(self, progress: AgentProgress, failure: str) -> AgentProgress:
        self._work = None
        if self._script is not None:
            script, self._script = self._script, None
            script.end()
        self._log(f"boot failed: {failure}")
        return progress.booted(failure)

    def _boot(self) -> Generator[Turn | None, None, Baseline]:
        """What the script left is the baseline, with GitHub's runner where jobs are GitHub's. Raise CannotSettle."""
        config = self._config
        if self.machine is not None:
            yield from self.machine.clear()
        if config.pre_runner_script.strip():
            yield from self._run_script()
        growing: tuple[Path, ...] = LOGS
        if self.machine is not None:
            self.machine.move_in()
        if self.actions is not None:
            growing += yield from self.actions.settle()
        if self.machine is not None:
            return (yield from self.machine.take_baseline(growing))
        return take_baseline(config.cleaned, mark_of(config.instance_id), growing)

    def _run_script(self) -> Iterator[Turn]:
        try:
            self._script = script = start_script(self._config)
        except Exception as exc:
            raise CannotSettle(f"the pre-runner script could not be started: {exc}") from exc
        self._reads(script)
        limit = self._config.pre_runner_timeout
        self._script_ends_at = time.monotonic() + limit
        while (code := script.exit_code()) is None and time.monotonic() < self._script_ends_at:
            yield Turn.WAITING
        if code is not None:
            self._script = None
        if code == 0:
            return
        said = f"; its last lines:\n{tail}" if (tail := script.tail()) else "; it printed nothing"
        how = f"did not end within {limit:g} s and was killed" if code is None else f"failed with exit code {code}"
        raise CannotSettle(f"the pre-runner script {how}{said}")
