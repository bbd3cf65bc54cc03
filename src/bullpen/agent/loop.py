"""The one loop of an agent: it waits on everything at once, asks `decide` what to do, does it, and sends the heartbeat.

    wake-ups ─┐
    SIGCHLD  ─┤                ┌ look at the record, if it may have changed
    SIGTERM  ─┼─▶ poll ──────▶ ┤ a heartbeat, if due
    output   ─┤    ▲           ├ a slice of the cleaning, if one is under way
    timers   ─┘    └───────────┴ what decide() says, until it says Wait

Nothing here takes long: what may is a task, which runs as a child or is done in slices. So a heartbeat means that the
whole agent works, not that one thread of it still turns.
"""

from __future__ import annotations

import os
import select
import signal
import time

from bullpen.agent.config import Config
from bullpen.agent.decide import UNKNOWN, Clean, Limits, NoRecord, Report, Sight, Step, Stop, Wait, decide
from bullpen.agent.link import Link, StoreUnreachable
from bullpen.agent.progress import Progress, Record
from bullpen.agent.tasks import Log, Tasks
from bullpen.engines.processes import TreeSurvived, become_subreaper, end_tree, identify, mark_of, reap
from bullpen.engines.sqlite.wake import Listener

POLL = 0.250  # seconds: what a lost wake-up costs at most
RETRY_FIRST, RETRY_LONGEST = 0.1, 2.0  # seconds between attempts to reach the store
LEAVING = 5.0  # seconds for everything below us to end when we leave


class Agent:
    """Runs one instance. Everything it has done is in `_progress`; everything else is how to do the next thing."""

    def __init__(self, config: Config, link: Link, listener: Listener | None, log: Log) -> None:
        self._config = config
        self._link = link
        self._listener = listener
        self._log = log
        self._limits = Limits(config.appears_within, config.max_runtime)
        self._progress = Progress(began=time.monotonic())
        self._record: Record | NoRecord = UNKNOWN
        self._must_look = True
        self._retry_at, self._retry_wait = 0.0, RETRY_FIRST
        self._beat_at = 0.0
        self._tasks = Tasks(config, log)
        self._ending = ""
        self._signals, self._signalled = os.pipe()

    def run(self) -> None:
        """Live until something says stop, then leave nothing running and no registration behind."""
        become_subreaper()
        self._hear_signals()
        while True:
            self._keep_in_touch()
            action = decide(self._sight(), self._progress, self._limits)
            match action:
                case Stop(reason):
                    self._leave(reason)
                    return
                case Wait(seconds):
                    self._wait(seconds)
                case _:
                    self._carry_out(action)

    # ----------------------------------------------------------------------------------------------------------- seeing

    def _sight(self) -> Sight:
        if not self._ending and not self._config.directory.exists():
            self._ending = "its directory is gone"
        return Sight(time.time(), time.monotonic(), self._record, self._ending)

    def _keep_in_touch(self) -> None:
        """Look at the record if it may have changed, and send the heartbeat if it is due."""
        now = time.monotonic()
        if now < self._retry_at:
            return
        try:
            if self._must_look or self._link.has_changed():
                self._see(self._link.look())
            if now >= self._beat_at:
                self._link.beat()
                self._beat_at = now + self._config.heartbeat
            self._retry_wait = RETRY_FIRST
        except StoreUnreachable as exc:
            self._lose_sight(exc)

    def _see(self, record: Record | NoRecord) -> None:
        self._must_look = False
        if record != self._record:
            self._log(f"sees {_shown(record)}")
        self._record = record
        if isinstance(record, Record):
            self._progress = self._progress.saw(record)

    def _lose_sight(self, exc: StoreUnreachable) -> None:
        if self._record is not UNKNOWN or self._retry_at == 0.0:
            self._log(f"cannot reach the store: {exc}")
        self._record = UNKNOWN
        self._must_look = True
        self._retry_at = time.monotonic() + self._retry_wait
        self._retry_wait = min(2 * self._retry_wait, RETRY_LONGEST)

    # ------------------------------------------------------------------------------------------------------------ doing

    def _carry_out(self, action: object) -> None:
        progress, record = self._progress, self._record
        if action is Step.RUN_SCRIPT:
            self._progress = self._tasks.begin_boot(progress)
            return
        assert isinstance(record, Record), f"{action} without a record"
        try:
            match action:
                case Report(kind, text):
                    self._link.report(kind, record, text)
                    self._beat_at = time.monotonic() + self._config.heartbeat
                    self._progress = progress.reported(kind, record.round)
                    self._log(f"{kind} run={record.run_id} round={record.round} {text}".rstrip())
                case Step.REGISTER:
                    if self._link.register(record):
                        self._progress = progress.registered(record, keeps=bool(self._config.keep))
                    self._must_look = True
                case Step.DEREGISTER:
                    self._link.deregister()
                    self._progress = progress.deregistered(record)
                case Step.TAKE_JOB:
                    order = self._link.take_job(record)
                    if order is not None:
                        self._log(f"takes job {order.job.id} run={record.run_id}")
                        self._progress = self._tasks.begin_job(progress, order, record.run_id)
                    self._must_look = True
                case Step.END_JOB:
                    self._progress = self._tasks.end_job(progress)
                case Step.SETTLE_JOB:
                    self._settle_job()
                case Clean(keep):
                    self._progress = self._tasks.begin_cleaning(progress, record, keep)
        except StoreUnreachable as exc:
            self._lose_sight(exc)

    def _settle_job(self) -> None:
        job = self._progress.job
        assert job is not None, "no job to settle"
        self._link.settle_job(job)
        self._progress = self._progress.job_settled()
        self._must_look = True
        self._log(f"job {job.id} ended with {job.exit_code}")

    # ---------------------------------------------------------------------------------------------------------- waiting

    def _wait(self, seconds: float | None) -> None:
        now = time.monotonic()
        ends = [self._retry_at] if self._retry_at > now else [self._beat_at, now + POLL]
        if seconds is not None:
            ends.append(now + seconds)
        if (end := self._tasks.must_be_checked_at()) is not None:
            ends.append(end)
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        if self._listener is not None:
            poll.register(self._listener.fileno(), select.POLLIN)
        for output in self._tasks.outputs():
            poll.register(output, select.POLLIN)
        poll.poll(max(0.0, min(ends) - now) * 1000)
        self._take_events()

    def _take_events(self) -> None:
        if self._listener is not None and self._listener.drain():
            self._must_look = True
        self._progress = self._tasks.check(self._progress)
        try:
            heard = os.read(self._signals, 4096)
        except BlockingIOError:
            return
        if signal.SIGTERM in heard or signal.SIGINT in heard:
            self._ending = "it was asked to stop"
        if signal.SIGCHLD in heard:
            reap(awaited=self._tasks.awaited())

    def _hear_signals(self) -> None:
        for end in (self._signals, self._signalled):
            os.set_blocking(end, False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            # The handler does nothing: the number arrives in the pipe, and so in the loop, where nothing is half done.
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)

    # ---------------------------------------------------------------------------------------------------------- leaving

    def _leave(self, reason: str) -> None:
        self._log(f"stops: {reason}")
        try:
            end_tree(identify(os.getpid()), mark_of(self._config.instance_id), patience=LEAVING)
        except TreeSurvived as exc:
            self._log(str(exc))
        try:
            if self._progress.job is not None:
                self._progress = self._tasks.end_job(self._progress)
                self._settle_job()
            self._link.deregister()
        except StoreUnreachable as exc:
            self._log(f"leaves its registration behind: {exc}")
        self._link.close()
        if self._listener is not None:
            self._listener.close()


def _shown(record: Record | NoRecord) -> str:
    if isinstance(record, NoRecord):
        return f"its record: {record.value}"
    return f"its record: {record.state} run={record.run_id} round={record.round}"
