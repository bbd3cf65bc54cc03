"""What takes an agent time: the pre-runner script, a job, a cleaning. Each is begun, then checked until it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from signal import SIGKILL
from typing import TYPE_CHECKING

from bullpen.agent.child_process import CANNOT_START, Child, start_job, start_script
from bullpen.agent.cleaning.baseline import Baseline, take_baseline
from bullpen.agent.cleaning.clean import Cleaning, Dirty, VerifiedClean, clean
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import CannotSettle, Turn
from bullpen.agent.config import LOGS, Config
from bullpen.agent.progress import AgentProgress, End, InstanceRecord
from bullpen.agent.store.base import Order, Sink
from bullpen.host.processes import mark_of
from bullpen.host.sweep import Path

if TYPE_CHECKING:
    from bullpen.agent.account import Account
    from bullpen.agent.github.admission import AdmissionRequest
    from bullpen.agent.github.runner import Actions
    from bullpen.agent.job_user import JobUserMachine

SLICE = 0.050  # seconds of cleaning at a time: a heartbeat fits in between
LOOK_AGAIN = 0.020  # seconds until we look whether a child has ended; its end wakes the loop as well

Log = Callable[[str], None]


class Tasks:
    """The agent's children and its cleaning. Every method takes the progress so far and returns what became of it."""

    def __init__(self, config: Config, log: Log) -> None:
        self._config = config
        self._log = log
        self._keep = KeepList()
        self._baseline: Baseline | None = None
        self._script: Child | None = None
        self._script_ends_at = 0.0
        self._job: Child | None = None
        self._printing: list[Child] = []  # also those that ended while a process they left still holds their output
        self._machine: JobUserMachine | None = None
        self._actions: Actions | None = None
        self._settling: Iterator[Turn] | None = None
        self._settled: Callable[[AgentProgress], AgentProgress] = self._finish_boot  # what then comes
        self._cleaning: Iterator[Cleaning | VerifiedClean | Dirty] | None = None
        self._cleaning_keeps = True
        self._slice_at = 0.0  # when what is done in slices goes on

    @property
    def github(self) -> Actions:
        """What serves GitHub's jobs, once the boot has begun, where they are whose jobs we run."""
        assert self._actions is not None, "jobs are our own"
        return self._actions

    def asked(self) -> AdmissionRequest | None:
        """A job of GitHub's that waits for our word."""
        return self._actions.asked() if self._actions is not None else None

    def admit(self, progress: AgentProgress, asked: AdmissionRequest) -> tuple[AgentProgress, bool]:
        """Admit or refuse it, and say which it was. Never raises, whatever a job has written."""
        try:
            return self.github.admit(progress, asked)
        except Exception as exc:
            self._log(f"unexpected: {story_of(exc)}")
            return self.github.give_up(progress, f"unexpected error: {exc!r}"), False

    def leave(self) -> None:
        """Take leave of GitHub, if jobs are GitHub's."""
        if self._actions is not None:
            self._actions.leave()

    def outputs(self) -> list[int]:
        """Descriptors to wait on."""
        # Asked of each child again: one may have closed since the last check began, with its last output taken.
        outputs = [child.output for child in self._printing if child.output >= 0]
        return outputs if self._actions is None else outputs + self._actions.outputs()

    def must_be_checked_at(self) -> float | None:
        """A monotonic reading, where time alone makes a check due."""
        if self._cleaning is not None or self._settling is not None:
            return self._slice_at
        if self._script is not None:
            return self._script_ends_at
        return self._actions.must_be_checked_at() if self._actions is not None else None

    def awaited(self) -> list[int]:
        """Children whose end is ours to collect."""
        pids = [child.pid for child in (self._script, self._job) if child is not None]
        if self._machine is not None and self._machine.child is not None:
            pids.append(self._machine.child)
        return pids if self._actions is None else pids + self._actions.awaited()

    def check(self, progress: AgentProgress) -> AgentProgress:
        """Take output, and notice what has ended. Never waits, works for no longer than a slice, and never raises."""
        try:
            for child in self._printing:
                child.pump()
            self._printing = [child for child in self._printing if child.output >= 0]
            if self._actions is not None:
                progress = self._actions.check(progress)
            progress = self._check_settling(self._check_script(progress))
            return self._check_cleaning(self._check_job(progress))
        except Exception as exc:
            self._log(f"unexpected: {story_of(exc)}")
            return self._give_up(progress, f"unexpected error: {exc!r}")

    def _give_up(self, progress: AgentProgress, why: str) -> AgentProgress:
        """An unexpected error costs the task under way, never the agent: the task ends, and counts as failed."""
        for child in self._printing:
            with suppress(Exception):
                child.close()
        self._printing = []
        if self._job is not None:
            progress = self.end_job(progress, End.RAN)
        if self._script is not None:
            script, self._script = self._script, None
            script.end()
            progress = self._fail_boot(progress, why)
        if self._cleaning is not None:
            progress = self._finish_cleaning(progress, why)
        return self._actions.give_up(progress, why) if self._actions is not None else progress

    def begin_boot(self, progress: AgentProgress) -> AgentProgress:
        progress = progress.booting()
        try:
            self._keep = KeepList.of(self._config.keep)
            if self._config.runner_user:
                from bullpen.agent.job_user import JobUserMachine  # what it needs takes time to load

                self._machine = JobUserMachine(self._config, self._log)
            if self._config.ci == "github":
                from bullpen.agent.github.runner import Actions

                self._actions = Actions(self._config, self._account(), self._log)
        except ValueError as exc:
            return self._fail_boot(progress, str(exc))
        if self._machine is None:
            return self._run_script(progress)
        return self._begin(self._machine.clear(), self._run_script, progress)

    def _run_script(self, progress: AgentProgress) -> AgentProgress:
        if not self._config.pre_runner_script.strip():
            return self._begin(self._settle(), self._finish_boot, progress)
        try:
            self._script = start_script(self._config)
        except Exception as exc:
            return self._fail_boot(progress, f"the pre-runner script could not be started: {exc}")
        self._printing.append(self._script)
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
            return self._begin(self._settle(), self._finish_boot, progress)
        said = f"; its last lines:\n{tail}" if (tail := script.tail()) else "; it printed nothing"
        if code is not None:
            return self._fail_boot(progress, f"the pre-runner script failed with exit code {code}{said}")
        script.end()
        limit = self._config.pre_runner_timeout
        return self._fail_boot(progress, f"the pre-runner script did not end within {limit:g} s and was killed{said}")

    def _fail_boot(self, progress: AgentProgress, failure: str) -> AgentProgress:
        self._log(f"boot failed: {failure}")
        return progress.booted(failure)

    def _finish_boot(self, progress: AgentProgress) -> AgentProgress:
        self._log("booted")
        return progress.booted(version=self._actions.version if self._actions is not None else "")

    def _begin(
        self, work: Iterator[Turn], then: Callable[[AgentProgress], AgentProgress], progress: AgentProgress
    ) -> AgentProgress:
        """A part of the boot that is done in slices."""
        self._settling, self._settled = work, then
        self._slice_at = 0.0
        return self._check_settling(progress)

    def _check_settling(self, progress: AgentProgress) -> AgentProgress:
        """Go on making the machine ready, or noting what is there."""
        if self._settling is None or time.monotonic() < self._slice_at:
            return progress
        end = time.monotonic() + SLICE
        try:
            for turn in self._settling:
                if turn is Turn.WAITING or time.monotonic() >= end:
                    self._slice_at = time.monotonic() + LOOK_AGAIN if turn is Turn.WAITING else 0.0
                    return progress
        except CannotSettle as exc:
            self._settling = None
            return self._fail_boot(progress, str(exc))
        except Exception as exc:
            self._settling = None
            return self._fail_boot(progress, f"the state of the machine at boot cannot be recorded: {exc}")
        self._settling = None
        return self._settled(progress)

    def _settle(self) -> Iterator[Turn]:
        """What the script left is the baseline, with GitHub's runner if jobs are GitHub's."""
        growing: tuple[Path, ...] = LOGS
        if self._machine is not None:
            self._machine.move_in()
        if self._actions is not None:
            growing += yield from self._actions.settle()
        if self._machine is not None:
            self._baseline = yield from self._machine.take_baseline(growing)
        else:
            self._baseline = take_baseline(self._config.cleaned, mark_of(self._config.instance_id), growing)

    def _account(self) -> Account | None:
        return self._machine.account if self._machine is not None else None

    def begin_job(
        self, progress: AgentProgress, order: Order, run_id: str, open_log: Callable[[], Sink]
    ) -> AgentProgress:
        progress = progress.took(order.job)
        try:
            self._job = start_job(self._config, order, run_id, open_log(), self._account())
        except Exception as exc:
            self._log(f"job {order.job.id} could not be started: {exc}")
            return progress.job_ended(CANNOT_START)
        self._printing.append(self._job)
        return progress

    def _check_job(self, progress: AgentProgress) -> AgentProgress:
        if self._job is None or (code := self._job.exit_code()) is None:
            return progress
        self._job.pump()
        self._job = None
        return progress.job_ended(code)

    def end_job(self, progress: AgentProgress, why: End) -> AgentProgress:
        """Kill the job with everything it started."""
        code = None
        if self._job is not None:
            self._job.end()
            code = self._job.exit_code()
            self._job = None
        return progress.job_ended(-SIGKILL if code is None else code, why)

    def begin_cleaning(self, progress: AgentProgress, record: InstanceRecord, keep: bool) -> AgentProgress:
        assert self._baseline is not None, "booted without a baseline"
        self._cleaning_keeps = keep
        machine = self._machine
        beside, renews = (machine.beside, machine.renews) if machine is not None else ((), ())
        self._cleaning = clean(self._baseline, self._keep if keep else KeepList(), beside, renews)
        self._slice_at = 0.0
        return progress.cleaning_began(record)

    def _check_cleaning(self, progress: AgentProgress) -> AgentProgress:
        end = time.monotonic() + SLICE
        while self._cleaning is not None and self._slice_at <= time.monotonic() < end:
            try:
                outcome = next(self._cleaning)
                if isinstance(outcome, Cleaning):
                    self._slice_at = time.monotonic() + LOOK_AGAIN if outcome.waits else 0.0
                    continue
            except OSError as exc:
                outcome = Dirty((f"cleaning failed: {exc}",))
            if isinstance(outcome, VerifiedClean):
                self._baseline = outcome.baseline
            progress = self._finish_cleaning(progress, "; ".join(outcome.reasons) if isinstance(outcome, Dirty) else "")
        return progress

    def _finish_cleaning(self, progress: AgentProgress, failure: str) -> AgentProgress:
        self._cleaning = None
        return progress.cleaned(failure, keep=self._cleaning_keeps)


def story_of(exc: Exception) -> str:
    """With every line of code that led to it."""
    from traceback import format_exception  # not loaded until something goes wrong: it takes milliseconds of a start

    return "".join(format_exception(exc)).rstrip()
