"""The boot of an instance: clear what earlier jobs left, run the pre-runner script, record the baseline.

begin ──▶ clear (only on a shared machine) ──▶ script ──▶ settle: GitHub's runner, the baseline ──▶ booted
                         └─────────────────────────┴────────────────────────────────┴──▶ failed, with the reason
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from bullpen.agent.child_process import Child, start_script
from bullpen.agent.cleaning.baseline import Baseline, take_baseline
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import LOOK_AGAIN, SLICE, CannotSettle, Turn
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
        self._work: Iterator[Turn] | None = None
        self._then: Callable[[AgentProgress], AgentProgress] = self._finish
        self._slice_at = 0.0  # when the work that is done in slices goes on

    @property
    def account(self) -> Account | None:
        return self.machine.account if self.machine is not None else None

    def begin(self, progress: AgentProgress) -> AgentProgress:
        progress = progress.booting()
        try:
            self.keep = KeepList.of(self._config.keep)
            if self._config.runner_user:
                from bullpen.agent.job_user import JobUserMachine  # what it needs takes time to load

                self.machine = JobUserMachine(self._config, self._log)
            if self._config.ci == "github":
                from bullpen.agent.github.runner import Actions

                self.actions = Actions(self._config, self.account, self._log)
        except ValueError as exc:
            return self._fail(progress, str(exc))
        if self.machine is None:
            return self._run_script(progress)
        return self._do(self.machine.clear(), self._run_script, progress)

    def must_be_checked_at(self) -> float | None:
        """A monotonic reading, where time alone makes a check due."""
        if self._work is not None:
            return self._slice_at
        return self._script_ends_at if self._script is not None else None

    def awaited(self) -> list[int]:
        """Children whose end is collected here."""
        pids = [self._script.pid] if self._script is not None else []
        if self.machine is not None and self.machine.child is not None:
            pids.append(self.machine.child)
        return pids

    def check(self, progress: AgentProgress) -> AgentProgress:
        return self._check_work(self._check_script(progress))

    def give_up(self, progress: AgentProgress, why: str) -> AgentProgress:
        """End a script that still runs; the boot has failed with it."""
        if self._script is None:
            return progress
        script, self._script = self._script, None
        script.end()
        return self._fail(progress, why)

    def _run_script(self, progress: AgentProgress) -> AgentProgress:
        if not self._config.pre_runner_script.strip():
            return self._do(self._settle(), self._finish, progress)
        try:
            self._script = start_script(self._config)
        except Exception as exc:
            return self._fail(progress, f"the pre-runner script could not be started: {exc}")
        self._reads(self._script)
        self._script_ends_at = time.monotonic() + self._config.pre_runner_timeout
        return progress

    def _check_script(self, progress: AgentProgress) -> AgentProgress:
        if self._script is None:
            return progress
        script, code = self._script, self._script.exit_code()
        if code is None and time.monotonic() < self._script_ends_at:
            return progress
        self._script = None
        if code == 0:
            return self._do(self._settle(), self._finish, progress)
        said = f"; its last lines:\n{tail}" if (tail := script.tail()) else "; it printed nothing"
        if code is not None:
            return self._fail(progress, f"the pre-runner script failed with exit code {code}{said}")
        script.end()
        limit = self._config.pre_runner_timeout
        return self._fail(progress, f"the pre-runner script did not end within {limit:g} s and was killed{said}")

    def _fail(self, progress: AgentProgress, failure: str) -> AgentProgress:
        self._log(f"boot failed: {failure}")
        return progress.booted(failure)

    def _finish(self, progress: AgentProgress) -> AgentProgress:
        self._log("booted")
        return progress.booted(version=self.actions.version if self.actions is not None else "")

    def _do(
        self, work: Iterator[Turn], then: Callable[[AgentProgress], AgentProgress], progress: AgentProgress
    ) -> AgentProgress:
        """Begin a part that is done in slices."""
        self._work, self._then = work, then
        self._slice_at = 0.0
        return self._check_work(progress)

    def _check_work(self, progress: AgentProgress) -> AgentProgress:
        if self._work is None or time.monotonic() < self._slice_at:
            return progress
        end = time.monotonic() + SLICE
        try:
            for turn in self._work:
                if turn is Turn.WAITING or time.monotonic() >= end:
                    self._slice_at = time.monotonic() + LOOK_AGAIN if turn is Turn.WAITING else 0.0
                    return progress
        except CannotSettle as exc:
            self._work = None
            return self._fail(progress, str(exc))
        except Exception as exc:
            self._work = None
            return self._fail(progress, f"the state of the machine at boot cannot be recorded: {exc}")
        self._work = None
        return self._then(progress)

    def _settle(self) -> Iterator[Turn]:
        """What the script left is the baseline, with GitHub's runner where jobs are GitHub's."""
        growing: tuple[Path, ...] = LOGS
        if self.machine is not None:
            self.machine.move_in()
        if self.actions is not None:
            growing += yield from self.actions.settle()
        if self.machine is not None:
            self.baseline = yield from self.machine.take_baseline(growing)
        else:
            self.baseline = take_baseline(self._config.cleaned, mark_of(self._config.instance_id), growing)
