"""One job of Bullpen's own queue at a time, from its files to its artifacts.

    take ──▶ fill its directory ──▶ run ──▶ collect artifacts ──▶ report
             only with files                 only with patterns      └──▶ remove its directory, in the background

Each step is a child process, so that the heartbeat goes on. A job without files starts in the shared directory `work`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

from bullpen.agent.boot_task import BootTask
from bullpen.agent.child_process import Child, start_job
from bullpen.agent.command_errors import cannot_start, explained
from bullpen.agent.config import Config
from bullpen.agent.progress import AgentProgress, End, InstanceRecord
from bullpen.agent.store.base import AgentJobs, AgentStore, NoCredentials, Order, OwnList, Sink

if TYPE_CHECKING:
    from bullpen.agent.forked import Forked, Report

Log = Callable[[str], None]

FILLED_WITHIN = 900.0  # seconds to fill a directory: a large project over a slow line
COLLECTED_WITHIN = 300.0  # seconds to collect artifacts: the job's result waits for them
FAILED_TO_FILL = 125  # the exit code of a job whose directory could not be filled, as docker says it


class SharedLog:
    """The log of a job, which several children write one after the other: closed with the last of its holders."""

    def __init__(self, log: Sink, holders: list[SharedLog] | None = None) -> None:
        self._log = log
        self._holders = [] if holders is None else holders
        self._holders.append(self)

    def shared(self) -> SharedLog:
        """For another holder."""
        return SharedLog(self._log, self._holders)

    def write(self, content: bytes) -> None:
        self._log.write(content)

    def close(self) -> None:
        if self in self._holders:
            self._holders.remove(self)
            if not self._holders:
                self._log.close()


class JobTask:
    """`reads` takes a child whose output is to be read."""

    def __init__(self, config: Config, log: Log, boot: BootTask, reads: Callable[[Child], None]) -> None:
        self._config, self._log, self._boot, self._reads = config, log, boot, reads
        self._order: Order | None = None
        self._run_id = ""
        self._job_log: SharedLog | None = None
        self._child: Child | None = None  # of the step under way
        self._step: Callable[[AgentProgress, Child, int], AgentProgress] = self._has_run
        self._start = ""  # where in its directory the job begins
        self._late_at: float | None = None
        self._ended = (0, End.RAN, "")  # how the command ended, while its artifacts are collected
        self._removals: list[Forked] = []

    def register(self, store: AgentStore, progress: AgentProgress, record: InstanceRecord) -> AgentProgress:
        """Appear on Bullpen's own list under the label of the record's run. Raise StoreUnreachable."""
        given: object = None
        with suppress(NoCredentials):
            given = store.register(record)
        if given is OwnList.MOVED_ON:
            return progress
        # Credentials, even refused ones, are for GitHub's runner: its jobs would wait here for ever.
        why = "" if given is OwnList.LISTED else "launched for Bullpen's own jobs, before engines.ci changed"
        return progress.registered(record, why, keeps=bool(self._config.keep))

    def begin(self, progress: AgentProgress, order: Order, run_id: str, open_log: Callable[[], Sink]) -> AgentProgress:
        progress = progress.took(order.job)
        self._order, self._run_id, self._start = order, run_id, ""
        try:
            self._job_log = SharedLog(open_log())
            if order.has_files:
                self._fill(order, self._job_log.shared())
            else:
                self._start_command(None)
        except Exception as exc:
            return self._not_started(progress, exc)
        return progress

    def awaited(self) -> list[int]:
        return [child.pid for child in (self._child, *self._removals) if child is not None]

    def must_be_checked_at(self) -> float | None:
        return self._late_at

    def check(self, progress: AgentProgress) -> AgentProgress:
        for removal in [one for one in self._removals if one.exit_code() is not None]:
            removal.report()
            self._removals.remove(removal)
        child = self._child
        if child is None:
            return progress
        code = child.exit_code()
        if code is None and self._late_at is not None and time.monotonic() >= self._late_at:
            child.end()
            code = -SIGKILL
        if code is None:
            return progress
        child.pump()
        self._child = self._late_at = None
        return self._step(progress, child, code)

    def end(self, progress: AgentProgress, why: End) -> AgentProgress:
        """Kill what is under way, with everything it started."""
        if progress.job is not None and progress.job.is_over:
            return self._end_collecting(progress, why)
        found, is_running = None, self._step == self._has_run
        if self._child is not None:
            self._child.end()
            found = self._child.exit_code()
            self._child = self._late_at = None
        code = -SIGKILL if found is None else found
        if why is End.TIMED_OUT and is_running:
            return self._collect(progress, code, why)
        return self._finished(progress, code, why)

    def give_up(self, progress: AgentProgress, why: str) -> AgentProgress:
        return self.end(progress, End.RAN) if self._child is not None else progress

    def settle(self, jobs: AgentJobs, progress: AgentProgress) -> AgentProgress:
        """Report the end of the job. Raise StoreUnreachable."""
        job = progress.job
        assert job is not None, "no job to settle"
        if job.end is End.RETURNED:
            jobs.give_back_job(job, job.why)
            jobs.settle_job(replace(job, end=End.LOST))  # it has no result, and this runner is free
            self._log(f"job {job.id} is given back: {job.why}")
            return progress.job_settled()
        is_accepted = jobs.settle_job(job)
        refused = "" if is_accepted else ", but the result was refused: the job is not this worker's any more"
        self._log(f"job {job.id} ended with {job.exit_code}{refused}")
        if not is_accepted and job.end is End.RAN:
            with suppress(OSError):  # in this assignment's log: the job's record tells the story of another one by now
                log = jobs.open_log(job)
                log.write(f"\n[too late: the result {job.exit_code} was refused]\n".encode())
                log.close()
        return progress.job_settled()

    # ------------------------------------------------------------------------------------------------------------ steps

    def _go_on_with(
        self, child: Child, step: Callable[[AgentProgress, Child, int], AgentProgress], within: float | None = None
    ) -> None:
        """Wait for the child, then take the step with its exit code."""
        self._child, self._step = child, step
        self._late_at = time.monotonic() + within if within is not None else None
        self._reads(child)

    def _fill(self, order: Order, log: Sink) -> None:
        from bullpen.agent.forked import Forked  # loaded with the first heartbeat: see `preload`
        from bullpen.agent.unpack_source import fill

        work = partial(fill, self._config, order, self._boot.account)
        self._go_on_with(Forked(work, log), self._has_filled, FILLED_WITHIN)

    def _has_filled(self, progress: AgentProgress, child: Child, code: int) -> AgentProgress:
        from bullpen.agent.forked import FAILED
        from bullpen.agent.unpack_source import set_aside

        said = _report_of(child)
        if code == 0:
            self._start = said.result
            try:
                self._start_command(self._directory())
            except Exception as exc:
                return self._not_started(progress, exc)
            return progress
        self._log(f"job {self._taken.job.id} did not begin: {said.why}")
        if said.about:
            with suppress(OSError):
                set_aside(self._config, said.about)
        return self._finished(progress, FAILED_TO_FILL, End.RAN if code == FAILED else End.RETURNED, said.why)

    def _directory(self) -> Path:
        """Where the job begins."""
        from bullpen.agent.unpack_source import directory_of

        return directory_of(self._config, self._taken) / self._start

    def _start_command(self, directory: Path | None) -> None:
        order, log = self._taken, self._job_log
        assert log is not None, "a job without a log"
        child = start_job(self._config, order, self._run_id, log.shared(), self._boot.account, directory)
        self._go_on_with(child, self._has_run)

    def _has_run(self, progress: AgentProgress, child: Child, code: int) -> AgentProgress:
        where = self._directory() if self._taken.has_files else self._config.places["work"]
        return self._collect(progress, code, End.RAN, explained(code, where))

    def _collect(self, progress: AgentProgress, code: int, end: End, why: str = "") -> AgentProgress:
        order, log = self._taken, self._job_log
        if not order.artifacts or log is None:
            return self._finished(progress, code, end, why)
        from bullpen.agent.collect_artifacts import collect
        from bullpen.agent.forked import Forked

        self._ended = code, end, why
        work = partial(collect, self._config, order, self._boot.account, self._directory())
        try:
            self._go_on_with(Forked(work, log.shared()), self._has_collected, COLLECTED_WITHIN)
        except OSError as exc:
            self._log(f"artifacts of job {order.job.id} could not be collected: {exc}")
            return self._finished(progress, code, end, why)
        return progress.job_is_over()

    def _end_collecting(self, progress: AgentProgress, why: End) -> AgentProgress:
        """The command had ended before: its result stands, without artifacts. Only one that succeeded and is cancelled
        now did not: what it left is a part of that."""
        from bullpen.agent.collect_artifacts import discard

        if self._child is not None:
            self._child.end()
        discard(self._config, self._taken)
        if self._job_log is not None:
            self._job_log.write(b"[bullpen: no artifacts: the job was ended while they were collected]\n")
        code, ended, text = self._ended
        if why is End.LOST or (why is End.CANCELLED and ended is End.RAN and code == 0):
            ended = why
        return self._finished(progress, code, ended, text)

    def _has_collected(self, progress: AgentProgress, child: Child, code: int) -> AgentProgress:
        from bullpen.agent.collect_artifacts import discard, publish

        said = _report_of(child)
        self._log(f"artifacts of job {self._taken.job.id}: {said.why or f'files: {said.result}'}")
        if code == 0:
            try:
                publish(self._config, self._taken)
            except OSError as exc:
                self._log(f"artifacts of job {self._taken.job.id} could not be stored: {exc}")
        else:
            discard(self._config, self._taken)
        return self._finished(progress, *self._ended)

    def _not_started(self, progress: AgentProgress, exc: Exception) -> AgentProgress:
        """The job has failed. Its log and its reason say what was not found, and where."""
        order = self._taken
        code, why = cannot_start(
            exc,
            order.command,
            directory=self._directory() if order.has_files else self._config.places["work"],
            path=os.environ.get("PATH", os.defpath),
            instance_id=self._config.instance_id,
        )
        self._log(f"job {order.job.id} could not be started: {why}")
        if self._job_log is not None:
            self._job_log.write(f"[{why}]\n".encode())
        return self._finished(progress, code, End.RAN, why)

    def _finished(self, progress: AgentProgress, code: int, end: End, why: str = "") -> AgentProgress:
        order, self._child, self._late_at = self._taken, None, None
        if self._job_log is not None:
            self._job_log.close()
            self._job_log = None
        if order.has_files:
            self._start = ""
            self._remove(self._directory())
        self._order = None
        return progress.job_ended(code, end, why)

    def _remove(self, directory: Path) -> None:
        from bullpen.agent.forked import Forked, Nowhere
        from bullpen.host.sweep import remove_tree

        def remove() -> str:
            remove_tree(directory)
            return ""

        with suppress(OSError):  # the cleaning removes it
            removal = Forked(remove, Nowhere())
            self._removals.append(removal)
            self._reads(removal)

    @property
    def _taken(self) -> Order:
        assert self._order is not None, "no job was taken"
        return self._order


def _report_of(child: Child) -> Report:
    from bullpen.agent.forked import Forked

    assert isinstance(child, Forked), "a command makes no report"
    return child.report()
