"""The jobs of one set that wait for a runner, and those that a runner was given, by the messages of the CI.

For people, and for the rescue of a job whose runner dies before its first heartbeat names it (started_jobs.py). How
many jobs there are is never counted here: messages get lost, doubled and late.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from bullpen.model.set_session import SetSession, StartedJob, WaitingJob
from bullpen.model.times import later
from bullpen.ports import JobMessage, JobMessageKind
from bullpen.ports.demand import JobStart
from bullpen.scale_sets.started_jobs import StartedJobs

SHOWN_AFTER = 10.0  # seconds: most jobs get a runner sooner, and the record should not change for each
LATE_AFTER = 60.0  # seconds: the CI takes an assignment back after five minutes
LAPSES = 3  # so often the CI assigns a job; after that only a runner that registers by chance gets it
MOST_WAITING = 1000  # jobs in memory; the record has the oldest few
STARTS = 20  # of the latest jobs: what supply asks about them is whether old ones still start


class JobBoard:
    def __init__(self, stored: SetSession, instance_of: Callable[[str], str | None]) -> None:
        self._instance_of = instance_of
        self._waiting = {job.id: job for job in stored.waiting}
        self.given = StartedJobs(stored.started, instance_of)
        self._late: set[str] = set()
        self._lapses: Counter[tuple[str, str]] = Counter()  # by run and name: the id changes with each assignment
        self.starts: deque[JobStart] = deque(maxlen=STARTS)
        self.why = ""  # why jobs wait, as supply last said

    def hear(self, job: JobMessage, now: datetime, time: float) -> str:
        """Take note of one entry of a message; returns what an operator should know about it, usually nothing."""
        match job.kind:
            case JobMessageKind.ASSIGNED | JobMessageKind.AVAILABLE:
                if len(self._waiting) < MOST_WAITING:
                    self._waiting.setdefault(job.job_id, _waits(job, now))
            case JobMessageKind.STARTED:
                self._waiting.pop(job.job_id, None)
                self.starts.append(JobStart(job.queued_at, time))
                if self._instance_of(job.runner) is None:
                    return f"{_named(job)} was given to runner {job.runner!r}, which is not one of this pool"
                self.given.begin(_starts(job, now), time)
            case JobMessageKind.COMPLETED:
                waited = self._waiting.pop(job.job_id, None)
                if job.runner:
                    self.given.complete(job.job_id)
                elif waited is not None and job.result == "canceled":
                    return self._lapsed(job, waited, now)
            case _:
                return f"an entry of a message cannot be read{f': its type is {job.type!r}' if job.type else ''}"
        return ""

    def settle(self, running: int, assigned: int) -> None:
        """Forget what messages failed to say: no job waits by the CI's count."""
        if assigned <= running:
            self._waiting.clear()

    def late(self, now: datetime) -> list[str]:
        """What to say about jobs that wait for long, once for each."""
        found = [job for job in self._waiting.values() if later(job.since, LATE_AFTER) <= now]
        fresh = [job for job in found if job.id not in self._late]
        self._late = {job.id for job in found}
        return [f"{_shown(job)} has waited for {LATE_AFTER:g} s: {self.why or 'no runner took it'}" for job in fresh]

    def waiting(self, now: datetime) -> tuple[WaitingJob, ...]:
        """Those that are worth a record, the oldest first."""
        old = [job for job in self._waiting.values() if later(job.since, SHOWN_AFTER) <= now]
        return tuple(replace(job, why=self.why) for job in sorted(old, key=lambda job: (job.since, job.id)))

    def started(self) -> tuple[StartedJob, ...]:
        return self.given.all()

    def _lapsed(self, job: JobMessage, waited: WaitingJob, now: datetime) -> str:
        """The CI took an assignment back, or the job was cancelled: the message is the same."""
        if later(waited.since, LATE_AFTER) > now:
            return ""
        key = (str(job.workflow_run), job.name)
        self._lapses[key] += 1
        times, reason = self._lapses[key], self.why or "no runner was ready"
        if times < LAPSES:
            return f"{_named(job)} was taken back without a runner, {times} of {LAPSES} times: {reason}"
        del self._lapses[key]
        return f"{_named(job)} was taken back {LAPSES} times, and is not announced again: {reason}"


def leaves_waiting(jobs: Iterable[JobMessage]) -> bool:
    """Whether these entries of one message assign a job that still waits. Messages gather: the start and the end of
    a short job come with its assignment."""
    kinds: dict[str, set[JobMessageKind]] = {}
    for job in jobs:
        kinds.setdefault(job.job_id, set()).add(job.kind)
    moved = {JobMessageKind.STARTED, JobMessageKind.COMPLETED}
    return any(JobMessageKind.ASSIGNED in found and not found & moved for found in kinds.values())


def _waits(job: JobMessage, now: datetime) -> WaitingJob:
    return WaitingJob(job.job_id, now, job.repository, _run(job), job.name)


def _starts(job: JobMessage, now: datetime) -> StartedJob:
    return StartedJob(job.job_id, job.runner, job.repository, _run(job), job.name, now)


def _run(job: JobMessage) -> str:
    return str(job.workflow_run) if job.workflow_run else ""


def _named(job: JobMessage) -> str:
    return f"job {job.name!r} of {job.repository}, run {_run(job)}"


def _shown(job: WaitingJob) -> str:
    return f"job {job.name!r} of {job.repository}, run {job.run}"
