"""What takes an agent time: its boot, a job, a cleaning, and GitHub's runner where jobs are GitHub's.

Each is begun, then checked until it is over. `Tasks` checks them all, so the loop needs not know which is under way.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from bullpen.agent.boot_task import BootTask
from bullpen.agent.child_process import Child
from bullpen.agent.cleaning.clean import Dirty, VerifiedClean, clean
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import Slices
from bullpen.agent.config import Config
from bullpen.agent.job_task import JobTask, Log
from bullpen.agent.progress import AgentProgress, InstanceRecord

if TYPE_CHECKING:
    from bullpen.agent.github.runner import Actions


class CleaningTask:
    """One cleaning at a time, in slices. A verified one renews the baseline."""

    def __init__(self, boot: BootTask) -> None:
        self._boot = boot
        self._work: Slices[VerifiedClean | Dirty] | None = None
        self._keeps = True

    def begin(self, progress: AgentProgress, record: InstanceRecord, keep: bool) -> AgentProgress:
        assert self._boot.baseline is not None, "booted without a baseline"
        self._keeps = keep
        machine = self._boot.machine
        beside, renews = (machine.beside, machine.renews) if machine is not None else ((), ())
        self._work = Slices(clean(self._boot.baseline, self._boot.keep if keep else KeepList(), beside, renews))
        return progress.cleaning_began(record)

    def must_be_checked_at(self) -> float | None:
        return self._work.at if self._work is not None else None

    def check(self, progress: AgentProgress) -> AgentProgress:
        if self._work is None:
            return progress
        try:
            outcome = self._work.go_on()
        except OSError as exc:
            outcome = Dirty((f"cleaning failed: {exc}",))
        if outcome is None:
            return progress
        if isinstance(outcome, Dirty):
            return self.give_up(progress, "; ".join(outcome.reasons))
        self._boot.baseline = outcome.baseline
        return self.give_up(progress, "")

    def give_up(self, progress: AgentProgress, why: str) -> AgentProgress:
        if self._work is None:
            return progress
        self._work = None
        return progress.cleaned(why, keep=self._keeps)


class Tasks:
    """All of them, and the output of their children. Each takes the progress so far and returns what became of it."""

    def __init__(self, config: Config, log: Log) -> None:
        self._log = log
        self._printing: list[Child] = []  # also those that ended while a process they left still holds their output
        self.boot = BootTask(config, log, self._printing.append)
        self.cleaning = CleaningTask(self.boot)
        self.job = JobTask(config, log, self.boot, self._printing.append)

    @property
    def github(self) -> Actions:
        """What serves GitHub's jobs, once the boot has begun."""
        assert self.boot.actions is not None, "jobs are Bullpen's own"
        return self.boot.actions

    @property
    def ci(self) -> Actions | JobTask:
        """What serves jobs, whichever CI they come from."""
        return self.boot.actions or self.job

    @property
    def is_asked(self) -> bool:
        """A job of GitHub has begun and waits for an answer."""
        return self.boot.actions is not None and self.boot.actions.is_asked

    def outputs(self) -> list[int]:
        """Descriptors to wait on."""
        # Asked of each child again: one may have closed since the last check began, with its last output taken.
        outputs = [child.output for child in self._printing if child.output >= 0]
        return outputs if self.boot.actions is None else outputs + self.boot.actions.outputs()

    def must_be_checked_at(self) -> float | None:
        """A monotonic reading, where time alone makes a check due."""
        for task in (self.cleaning, self.boot, self.boot.actions, self.job):
            if task is not None and (at := task.must_be_checked_at()) is not None:
                return at
        return None

    def awaited(self) -> list[int]:
        """Children whose end is collected here."""
        return self.boot.awaited() + self.ci.awaited()

    def check(self, progress: AgentProgress) -> AgentProgress:
        """Take output, and notice what has ended. Never waits, works for no longer than a slice, and never raises."""
        try:
            for child in self._printing:
                child.pump()
            self._printing[:] = [child for child in self._printing if child.output >= 0]
            for task in (self.ci, self.boot, self.cleaning):
                progress = task.check(progress)
            return progress
        except Exception as exc:
            why = unexpected(exc, self._log)
        # An unexpected error costs the task under way, never the agent: the task ends, and counts as failed.
        for child in self._printing:
            with suppress(Exception):  # what failed may be this child; the others are closed all the same
                child.close()
        self._printing.clear()
        for task in (self.ci, self.boot, self.cleaning):
            progress = task.give_up(progress, why)
        return progress

    def admit(self, progress: AgentProgress) -> AgentProgress:
        """Admit or refuse the job of GitHub that asks. Never raises, whatever a job has written."""
        try:
            return self.github.admit(progress)
        except Exception as exc:
            return self.github.give_up(progress, unexpected(exc, self._log))

    def leave(self) -> None:
        """Stop GitHub's runner for good, if there is one."""
        if self.boot.actions is not None:
            self.boot.actions.leave()


def unexpected(exc: Exception, log: Log) -> str:
    """Log it, with every line of code that led to it. Returns it in a sentence."""
    from traceback import format_exception  # not loaded until something goes wrong: it takes milliseconds of a start

    log(f"unexpected: {''.join(format_exception(exc)).rstrip()}")
    return f"unexpected error: {exc!r}"
