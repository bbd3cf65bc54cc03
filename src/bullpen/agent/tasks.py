"""What takes an agent time: its boot, a job, a cleaning, and GitHub's runner where jobs are GitHub's.

Each is begun, then checked until it is over. The loop calls `Tasks` and needs not know which of them is under way, nor
which CI the jobs come from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from signal import SIGKILL
from typing import TYPE_CHECKING

from bullpen.agent.boot_task import BootTask
from bullpen.agent.child_process import CANNOT_START, Child, start_job
from bullpen.agent.cleaning.clean import Cleaning, Dirty, VerifiedClean, clean
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import LOOK_AGAIN, SLICE
from bullpen.agent.config import Config
from bullpen.agent.progress import AgentProgress, End, InstanceRecord
from bullpen.agent.store.base import AgentStore, NoCredentials, Order, OwnList, Sink

if TYPE_CHECKING:
    from bullpen.agent.github.admission import AdmissionRequest
    from bullpen.agent.github.runner import Actions

Log = Callable[[str], None]


class CleaningTask:
    """One cleaning at a time, in slices. A verified one renews the baseline."""

    def __init__(self, boot: BootTask) -> None:
        self._boot = boot
        self._work: Iterator[Cleaning | VerifiedClean | Dirty] | None = None
        self._keeps = True
        self._slice_at = 0.0

    def begin(self, progress: AgentProgress, record: InstanceRecord, keep: bool) -> AgentProgress:
        assert self._boot.baseline is not None, "booted without a baseline"
        self._keeps = keep
        machine = self._boot.machine
        beside, renews = (machine.beside, machine.renews) if machine is not None else ((), ())
        self._work = clean(self._boot.baseline, self._boot.keep if keep else KeepList(), beside, renews)
        self._slice_at = 0.0
        return progress.cleaning_began(record)

    def must_be_checked_at(self) -> float | None:
        return self._slice_at if self._work is not None else None

    def check(self, progress: AgentProgress) -> AgentProgress:
        end = time.monotonic() + SLICE
        while self._work is not None and self._slice_at <= time.monotonic() < end:
            try:
                outcome = next(self._work)
                if isinstance(outcome, Cleaning):
                    self._slice_at = time.monotonic() + LOOK_AGAIN if outcome.waits else 0.0
                    continue
            except OSError as exc:
                outcome = Dirty((f"cleaning failed: {exc}",))
            if isinstance(outcome, VerifiedClean):
                self._boot.baseline = outcome.baseline
            progress = self._finish(progress, "; ".join(outcome.reasons) if isinstance(outcome, Dirty) else "")
        return progress

    def give_up(self, progress: AgentProgress, why: str) -> AgentProgress:
        return self._finish(progress, why) if self._work is not None else progress

    def _finish(self, progress: AgentProgress, failure: str) -> AgentProgress:
        self._work = None
        return progress.cleaned(failure, keep=self._keeps)


class Tasks:
    """The agent's children and its cleaning. Every method takes the progress so far and returns what became of it."""

    def __init__(self, config: Config, log: Log) -> None:
        self._config = config
        self._log = log
        self._job: Child | None = None
        self._printing: list[Child] = []  # also those that ended while a process they left still holds their output
        self._boot = BootTask(config, log, lambda child: self._printing.append(child))
        self._cleaning = CleaningTask(self._boot)
        self._asked: AdmissionRequest | None = None

    # ------------------------------------------------------------------------------------------------------------- all

    def outputs(self) -> list[int]:
        """Descriptors to wait on."""
        # Asked of each child again: one may have closed since the last check began, with its last output taken.
        outputs = [child.output for child in self._printing if child.output >= 0]
        return outputs if self._actions is None else outputs + self._actions.outputs()

    def must_be_checked_at(self) -> float | None:
        """A monotonic reading, where time alone makes a check due."""
        for at in (self._cleaning.must_be_checked_at(), self._boot.must_be_checked_at()):
            if at is not None:
                return at
        return self._actions.must_be_checked_at() if self._actions is not None else None

    def awaited(self) -> list[int]:
        """Children whose end is collected here."""
        pids = [*self._boot.awaited(), *([self._job.pid] if self._job is not None else ())]
        return pids if self._actions is None else pids + self._actions.awaited()

    def check(self, progress: AgentProgress) -> AgentProgress:
        """Take output, and notice what has ended. Never waits, works for no longer than a slice, and never raises."""
        try:
            for child in self._printing:
                child.pump()
            self._printing = [child for child in self._printing if child.output >= 0]
            if self._actions is not None:
                self._asked = self._actions.asked()
                progress = self._actions.check(progress)
            return self._cleaning.check(self._check_job(self._boot.check(progress)))
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
        progress = self._cleaning.give_up(self._boot.give_up(progress, why), why)
        return self._actions.give_up(progress, why) if self._actions is not None else progress

    # ----------------------------------------------------------------------------------------------- boot and cleaning

    def begin_boot(self, progress: AgentProgress) -> AgentProgress:
        return self._boot.begin(progress)

    def begin_cleaning(self, progress: AgentProgress, record: InstanceRecord, keep: bool) -> AgentProgress:
        return self._cleaning.begin(progress, record, keep)

    # ------------------------------------------------------------------------------------------------------ the own CI

    def begin_job(
        self, progress: AgentProgress, order: Order, run_id: str, open_log: Callable[[], Sink]
    ) -> AgentProgress:
        progress = progress.took(order.job)
        try:
            self._job = start_job(self._config, order, run_id, open_log(), self._boot.account)
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

    # ------------------------------------------------------------------------------------------------------ either CI

    def register(self, store: AgentStore, progress: AgentProgress, record: InstanceRecord) -> AgentProgress:
        """Appear at the CI under the label of the record's run, or begin to. Raise StoreUnreachable."""
        if self._actions is not None:
            return self._actions.register(store, progress, record)
        given: object = None
        with suppress(NoCredentials):
            given = store.register(record)
        if given is OwnList.MOVED_ON:
            return progress
        # Credentials, even refused ones, are for GitHub's runner: its jobs would wait here for ever.
        why = "" if given is OwnList.LISTED else "launched for Bullpen's own jobs, before engines.ci changed"
        return progress.registered(record, why, keeps=bool(self._config.keep))

    def hang_up(self, progress: AgentProgress, record: InstanceRecord) -> AgentProgress:
        """Begin to stop GitHub's runner."""
        return self.github.hang_up(progress, record)

    def leave(self) -> None:
        """Stop GitHub's runner for good, if there is one."""
        if self._actions is not None:
            self._actions.leave()

    # --------------------------------------------------------------------------------------------------- GitHub's jobs

    @property
    def github(self) -> Actions:
        """What serves GitHub's jobs, once the boot has begun."""
        assert self._actions is not None, "jobs are Bullpen's own"
        return self._actions

    @property
    def _actions(self) -> Actions | None:
        return self._boot.actions

    def asked(self) -> AdmissionRequest | None:
        """The job that has begun and that the last check found to wait for an answer. Other questions get none."""
        return self._asked if self._actions is not None and self._actions.awaits_word else None

    def admit(self, progress: AgentProgress, asked: AdmissionRequest) -> tuple[AgentProgress, bool]:
        """Admit or refuse it, and return which it was. Never raises, whatever a job has written."""
        try:
            return self.github.admit(progress, asked)
        except Exception as exc:
            self._log(f"unexpected: {story_of(exc)}")
            return self.github.give_up(progress, f"unexpected error: {exc!r}"), False

    def let_go(self, asked: AdmissionRequest) -> None:
        """Let an admitted job begin."""
        self.github.let_go(asked)


def story_of(exc: Exception) -> str:
    """With every line of code that led to it."""
    from traceback import format_exception  # not loaded until something goes wrong: it takes milliseconds of a start

    return "".join(format_exception(exc)).rstrip()
