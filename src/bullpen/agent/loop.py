"""The one loop of an agent: it waits on everything at once, asks `decide` what to do, does it, and sends the heartbeat.

    wake-ups ─┐
    SIGCHLD  ─┤                ┌ a heartbeat, if due
    SIGTERM  ─┼─▶ poll ──────▶ ┤ look at the record, if it may have changed
    output   ─┤    ▲           ├ a slice of the cleaning, if one is under way
    timers   ─┘    └───────────┴ what decide() says, until it says Wait

Nothing here takes long: what may is a task, which runs as a child or is done in slices. So a heartbeat means that the
whole agent works, not that one thread of it still turns.
"""

from __future__ import annotations

import select
import signal
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from bullpen.agent.config import Config
from bullpen.agent.decide import (
    UNKNOWN,
    CleanInstance,
    EndJob,
    NoRecord,
    Observation,
    SelfStopLimits,
    SendSignal,
    Step,
    Stop,
    Wait,
    decide,
)
from bullpen.agent.job_task import Log
from bullpen.agent.preload import load_everything
from bullpen.agent.progress import AgentProgress, InstanceRecord, InstanceState, LeaseHolder
from bullpen.agent.shutdown import Journal, leave
from bullpen.agent.store.base import AgentJobs, AgentStore, StillBusy, StoreUnreachable
from bullpen.agent.tasks import Tasks, unexpected
from bullpen.agent.wakeup import UnixSignals
from bullpen.host.processes import become_subreaper, reap

if TYPE_CHECKING:
    from bullpen.agent.aws.interruption import Notice, Notices
    from bullpen.agent.wakeup import Wakeups

POLL = 0.250  # seconds: what a lost wake-up costs at most
RETRY_FIRST, RETRY_LONGEST = 0.1, 2.0  # seconds between attempts to reach the store
TAKE_AGAIN = 1.0  # seconds after asking for a job in vain, unless something has changed before


class AgentLoop:
    """Runs one instance. Everything it has done is in `_progress`; everything else is how to do the next thing."""

    def __init__(
        self, config: Config, store: AgentStore, wakeups: Wakeups, log: Log, notices: Notices | None = None
    ) -> None:
        self._config = config
        self._store = store
        self._wakeups = wakeups
        self._notices = notices
        self._notice: Notice | None = None
        self._log = Journal(log)
        self._limits = SelfStopLimits(config.appears_within, config.max_runtime, config.idle)
        self._progress = AgentProgress(began=time.monotonic())
        self._record: InstanceRecord | NoRecord = UNKNOWN
        self._must_read = True
        self._retry_at, self._retry_wait = 0.0, RETRY_FIRST
        self._beat_at, self._beat_wait = 0.0, RETRY_FIRST
        self._take_at = 0.0
        self._tasks = Tasks(config, self._log)
        self._ending = ""
        self._signals = UnixSignals()

    @property
    def _jobs(self) -> AgentJobs:
        jobs = self._store.jobs
        assert jobs is not None, "a job was taken from a store that gives none"
        return jobs

    def run(self) -> bool:
        """Live until something says stop, then leave nothing running and no registration behind. False: by an
        unexpected error, which is in the log; even then the job goes to another worker at once, not with the lease."""
        try:
            become_subreaper()
            self._signals.hear()
            while not (reason := self._turn()):
                pass
            is_well = True
        except Exception as exc:
            reason, is_well = unexpected(exc, self._log), False
        leave(self._config, self._store, self._record, self._progress, reason, self._log, self._tasks.leave)
        self._wakeups.close()
        if self._notices is not None:
            self._notices.close()
        return is_well

    def _turn(self) -> str:
        """Look around and do one thing, or wait for something to do. Says why it is over, if it is."""
        self._keep_in_touch()
        action = decide(self._sight(), self._progress, self._limits)
        match action:
            case Stop(reason):
                return reason
            # The first heartbeat. Other actions go first: a provision waits for them, not for a heartbeat.
            # But without a lease no job is asked for: the store would refuse it.
            case Wait() | Step.TAKE_JOB if self._beat_if_due():
                pass
            case Wait(seconds):
                self._wait(seconds)
            case _:
                self._carry_out(action)
        return ""

    # ----------------------------------------------------------------------------------------------------------- seeing

    def _sight(self) -> Observation:
        if not self._ending and not self._config.directory.exists():
            self._ending = "its directory is gone"
        notice = self._notices.notice if self._notices is not None else None
        if notice is not None and notice != self._notice:
            self._notice = notice
            self._beat_at = 0.0  # the control plane should know now
            self._log(f"got notice: {notice.text}")
        return Observation(time.time(), time.monotonic(), self._record, self._ending, notice.text if notice else "")

    def _keep_in_touch(self) -> None:
        """Renew the lease, then look at the record, and at the job that runs here, if they may have changed."""
        if self._progress.holder != LeaseHolder():
            # Before all else, and whatever else fails: the rest may wait for a service that is slow or says later.
            self._beat_if_due()
        if time.monotonic() < self._retry_at:
            return
        try:
            # A job may become free by time alone, so a runner without one looks at every turn.
            if self._store.has_changed():
                self._must_read, self._take_at = True, 0.0
            if self._must_read or self._awaits_a_job():
                self._see(self._store.read_record())
                if (job := self._progress.job) is not None and job.exit_code is None:
                    self._progress = self._progress.told_to_end(self._jobs.standing(job))
            self._retry_wait = RETRY_FIRST
        except StoreUnreachable as exc:
            self._lose_sight(exc)

    def _awaits_a_job(self) -> bool:
        if self._config.ci or self._progress.job is not None or time.monotonic() < self._take_at:
            return False
        is_running = isinstance(self._record, InstanceRecord) and self._record.state is InstanceState.RUNNING
        return is_running and self._store.jobs is not None

    def _beat_if_due(self) -> bool:
        """Send the heartbeat; True if that changed anything that the next decision looks at."""
        now = time.monotonic()
        if now < self._beat_at or self._progress.seen is None:
            return False
        before = self._progress.holder
        if before == LeaseHolder():
            load_everything(self._config)
        leaving = self._notice.at if self._notice else None
        try:
            grant = self._store.beat(self._progress.job, leaving, self._progress.beats)
        except StoreUnreachable as exc:
            if self._beat_wait == RETRY_FIRST:
                self._log(f"cannot reach the store with a heartbeat: {exc}")
            self._beat_at = time.monotonic() + self._beat_wait
            self._beat_wait = min(2 * self._beat_wait, RETRY_LONGEST)
            return False
        self._beat_at, self._beat_wait = now + (grant.next_in or self._config.heartbeat), RETRY_FIRST
        self._progress = self._progress.beat(grant.holder)
        if grant.retired:
            self._ending = "its worker was retired"
        if before == grant.holder and not grant.retired:
            return False
        self._log(f"is worker {grant.holder.worker} in epoch {grant.holder.epoch}")
        self._must_read, self._take_at = True, 0.0
        return True

    def _see(self, record: InstanceRecord | NoRecord) -> None:
        self._must_read = False
        if isinstance(record, InstanceRecord) and (self._config.ci or time.monotonic() < self._take_at):
            record = replace(record, has_job=False)
        if record != self._record:
            self._log(f"sees {_shown(record)}")
        self._record = record
        if isinstance(record, InstanceRecord):
            self._progress = self._progress.saw(record)

    def _lose_sight(self, exc: StoreUnreachable) -> None:
        if self._record is not UNKNOWN or self._retry_at == 0.0:
            self._log(f"cannot reach the store: {exc}")
        self._record = UNKNOWN
        self._must_read = True
        self._retry_at = time.monotonic() + self._retry_wait
        self._retry_wait = min(2 * self._retry_wait, RETRY_LONGEST)

    # ------------------------------------------------------------------------------------------------------------ doing

    def _carry_out(self, action: object) -> None:
        progress, record = self._progress, self._record
        if action is Step.RUN_SCRIPT:
            self._progress = self._tasks.boot.begin(progress)
            return
        if isinstance(action, EndJob):
            self._progress = self._tasks.job.end(progress, action.why)
            return
        assert isinstance(record, InstanceRecord), f"{action} without a record"
        try:
            match action:
                case SendSignal(kind, text):
                    self._store.report(kind, record, text)
                    self._progress = progress.reported(kind, record.round, time.monotonic())
                    self._log(f"{kind} run={record.run_id} round={record.round} {text}".rstrip())
                case Step.REGISTER:
                    self._must_read = True
                    self._progress = self._tasks.ci.register(self._store, progress, record)
                case Step.HANG_UP:
                    self._progress = self._tasks.github.hang_up(progress)
                case Step.WITHDRAW:
                    self._progress = self._tasks.github.withdraw(self._store, progress, record)
                case Step.DEREGISTER:
                    self._deregister()
                case Step.TAKE_JOB:
                    self._take_job(record)
                case Step.SETTLE_JOB:
                    self._progress = self._tasks.job.settle(self._jobs, progress)
                    self._must_read = True
                case CleanInstance(keep):
                    self._progress = self._tasks.cleaning.begin(progress, record, keep)
        except StoreUnreachable as exc:
            self._lose_sight(exc)
        self._beat_soon(progress)

    def _deregister(self) -> None:
        progress = self._progress
        try:
            self._store.deregister(progress.runner)
        except StillBusy:
            if not progress.serves_set:
                raise
            # Its runner is gone, and no other one gets this name: the control plane removes it, once GitHub gives the
            # job up.
            self._log(f"leaves {progress.runner} behind: GitHub says that it has a job")
        self._progress = progress.deregistered()

    def _beat_soon(self, before: AgentProgress) -> None:
        """The control plane may wait for this runner to be free, or to listen."""
        if self._progress.beats != before.beats:
            self._beat_at = 0.0

    def _admit(self) -> None:
        """Admit or refuse a job of GitHub. The control plane hears of it first, in case the agent dies under it."""
        with suppress(StoreUnreachable):  # then the last known record has to do
            self._see(self._store.read_record())
        before = self._progress.activity
        self._progress = self._tasks.admit(self._progress)
        if self._progress.activity is not None and self._progress.activity is not before:
            self._beat_at = 0.0
            self._beat_if_due()
            self._tasks.github.let_go()

    def _take_job(self, record: InstanceRecord) -> None:
        order = self._jobs.take_job(record)
        if order is None:
            # Another worker was faster, the job does not suit this one, or this one is lost, as the next heartbeat
            # shows. The record may go on to say that a job waits: asking at every turn would only load the server.
            self._record = replace(record, has_job=False)
            self._take_at = time.monotonic() + TAKE_AGAIN
            return
        job = order.job
        self._log(f"takes job {job.id} run={record.run_id} fence={job.fence}")
        self._progress = self._tasks.job.begin(self._progress, order, record.run_id, lambda: self._jobs.open_log(job))
        self._must_read = True

    # ---------------------------------------------------------------------------------------------------------- waiting

    def _wait(self, seconds: float | None) -> None:
        now = time.monotonic()
        ends = (
            self._retry_at if self._retry_at > now else now + POLL,
            self._beat_at if self._progress.seen is not None else None,
            now + seconds if seconds is not None else None,
            self._tasks.must_be_checked_at(),
        )
        poll = select.poll()
        for readable in (self._signals.fileno(), self._wakeups.fileno(), *self._tasks.outputs()):
            poll.register(readable, select.POLLIN)
        poll.poll(max(0.0, min(end for end in ends if end is not None) - now) * 1000)
        self._take_events()

    def _take_events(self) -> None:
        if self._wakeups.drain():
            self._must_read = True
        before = self._progress
        self._progress = self._tasks.check(self._progress)
        self._beat_soon(before)
        if self._tasks.is_asked:
            self._admit()
        heard = self._signals.take()
        if signal.SIGTERM in heard or signal.SIGINT in heard:
            self._ending = "it was asked to stop"
        if signal.SIGCHLD in heard:
            reap(awaited=self._tasks.awaited())


def _shown(record: InstanceRecord | NoRecord) -> str:
    if isinstance(record, NoRecord):
        return f"its record: {record.value}"
    return f"its record: {record.state} run={record.run_id} round={record.round}"
