"""The jobs of one set that wait for a runner, and those that a runner was given, by the messages of the CI.

    JobAssigned ──▶ waits ──▶ JobStarted, or JobCompleted with a runner: forgotten
                     ▲ │
                     │ └──▶ JobCompleted without a runner: cancelled by its user, or taken back by the CI
                     └────── JobAssigned again, of the same run and name: the id of an assignment is another each time

The CI takes an assignment back after five minutes without a runner, three times. Then it does not announce the job
again, and only a runner that registers by chance gets it. So a job that was taken back goes on waiting, until one of
these messages, the end of its run (lapsed_runs.py), or for a day. If it is announced after the third time all the same,
a user has run its run again, and it waits as a new job. Where too many wait, it gives way to others.

For people, and for the rescue of a job whose runner dies before its first heartbeat names it (started_jobs.py). How
many jobs there are is never counted here: messages get lost, doubled and late.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from bullpen.model.set_session import SetSession, StartedJob, WaitingJob, fitting_waiting
from bullpen.model.times import later
from bullpen.ports import JobMessage, JobMessageKind
from bullpen.ports.demand import JobStart
from bullpen.scale_sets.started_jobs import StartedJobs
from bullpen.scale_sets.waits import LAPSES
from bullpen.structured_log import LogEvent, happened

TAKEN_BACK_AFTER = 240.0  # seconds of a wait that the CI ended, not a user: it does so after 300, and may be heard late
FORGOTTEN = 86400.0  # seconds after a job was taken back: the CI cancels a job that was queued for a day
MOST_WAITING = 1000  # jobs in memory; the record has the oldest few
STARTS = 200  # of the latest jobs: supply asks whether old ones still start, and which ones the counts include

RunKey = tuple[str, str]
"""Repository and run."""


class JobBoard:
    def __init__(self, stored: SetSession, instance_of: Callable[[str], str | None]) -> None:
        self._instance_of = instance_of
        self._waiting = {job.id: job for job in stored.waiting if job.id}
        self._fresh: set[str] = set()  # assigned since the CI's count was last compared
        self.given = StartedJobs(stored.started, instance_of)
        self.starts: deque[JobStart] = deque(maxlen=STARTS)

    def hear(self, job: JobMessage, now: datetime, time: float) -> LogEvent | None:
        """Take note of one entry of a message; returns what an operator should know about it, usually nothing."""
        match job.kind:
            case JobMessageKind.ASSIGNED | JobMessageKind.AVAILABLE:
                self._assign(job, now)
            case JobMessageKind.STARTED:
                self._end(job)
                self.starts.append(JobStart(job.queued_at, time, job.runner))
                if self._instance_of(job.runner) is None:
                    return happened("job given to a runner of another pool", **_fields(job), runner=job.runner)
                self.given.begin(_starts(job, now), time)
            case JobMessageKind.COMPLETED if job.runner:
                self._end(job)
                self.given.complete(job.job_id)
            case JobMessageKind.COMPLETED:
                self._take_back(job, now)
            case _:
                return happened("entry of a message cannot be read", type=job.type or None)
        return None

    def settle(self, running: int, assigned: int) -> None:
        """Forget what messages failed to say: no more jobs wait than the CI counts. It gives a runner the oldest one. A
        job that was announced together with this count stays until the next: it may not be counted yet."""
        known = [job for job in self._waiting.values() if job.taken_back_at is None]
        excess = max(0, len(known) - max(0, assigned - running))
        old = sorted((job for job in known if job.id not in self._fresh), key=lambda job: (job.since, job.id))
        for job in old[:excess]:
            del self._waiting[job.id]
        self._fresh.clear()

    def waiting(self, now: datetime) -> tuple[WaitingJob, ...]:
        """All that are known, also those that the CI has taken back."""
        self._waiting = {id: job for id, job in self._waiting.items() if not _is_forgotten(job, now)}
        return tuple(self._waiting.values())

    def lapsed_runs(self) -> list[RunKey]:
        """The runs of jobs that the CI has taken back, in the order in which it did."""
        return list(dict.fromkeys((job.repository, job.run) for job in self._lapsed() if job.run))

    def forget_runs(self, runs: Collection[RunKey]) -> None:
        """These have ended, and no job of theirs waits."""
        self._waiting = {id: job for id, job in self._waiting.items() if (job.repository, job.run) not in runs}

    def started(self) -> tuple[StartedJob, ...]:
        return self.given.all()

    def _assign(self, job: JobMessage, now: datetime) -> None:
        if job.job_id in self._waiting:
            return
        before = self._pop_lapsed(job)
        if before is not None and before.lapses >= LAPSES:
            before = None  # the CI has given it up: this is a re-run
        if self._has_room():
            again = replace(before, id=job.job_id, taken_back_at=None) if before else _waits(job, now)
            self._waiting[job.job_id] = again
            self._fresh.add(job.job_id)

    def _end(self, job: JobMessage) -> None:
        self._waiting.pop(job.job_id, None)
        self._pop_lapsed(job)

    def _take_back(self, job: JobMessage, now: datetime) -> None:
        """The CI took an assignment back, or its user cancelled the job: only how long it waited tells them apart."""
        known = self._waiting.get(job.job_id)
        if known is not None and known.taken_back_at is not None:
            return  # a double
        self._waiting.pop(job.job_id, None)
        before = self._pop_lapsed(job) if known is None else known
        waited = _waited(job, known, now)
        is_lapse = job.result == "canceled" and waited >= timedelta(seconds=TAKEN_BACK_AFTER)
        if is_lapse and self._has_room():
            entry = before or replace(_waits(job, now), since=now - waited)
            back = replace(entry, id=job.job_id, lapses=entry.lapses + 1, taken_back_at=now)
            self._waiting[back.id] = back

    def _pop_lapsed(self, job: JobMessage) -> WaitingJob | None:
        """Forget the same job as one that was taken back; returns it."""
        back = self._lapsed()
        if not back:
            return None
        this = _waits(job, back[0].since)
        same = [one for one in back if (one.repository, one.run, one.name) == (this.repository, this.run, this.name)]
        return self._waiting.pop(same[0].id) if same else None

    def _has_room(self) -> bool:
        """Whether one more job may be kept. The one that was taken back first gives way."""
        if len(self._waiting) >= MOST_WAITING and (back := self._lapsed()):
            del self._waiting[min(back, key=lambda job: job.taken_back_at or job.since).id]
        return len(self._waiting) < MOST_WAITING

    def _lapsed(self) -> list[WaitingJob]:
        return [job for job in self._waiting.values() if job.taken_back_at is not None]


def leaves_waiting(jobs: Iterable[JobMessage]) -> bool:
    """Whether these entries of one message assign a job that still waits. Messages gather: the start and the end of
    a short job come with its assignment."""
    kinds: dict[str, set[JobMessageKind]] = {}
    for job in jobs:
        kinds.setdefault(job.job_id, set()).add(job.kind)
    moved = {JobMessageKind.STARTED, JobMessageKind.COMPLETED}
    return any(JobMessageKind.ASSIGNED in found and not found & moved for found in kinds.values())


def _is_forgotten(job: WaitingJob, now: datetime) -> bool:
    return job.taken_back_at is not None and later(job.taken_back_at, FORGOTTEN) <= now


def _waited(job: JobMessage, known: WaitingJob | None, now: datetime) -> timedelta:
    """For how long it was assigned, by the CI's own times if it says them."""
    if job.assigned_at is not None and job.finished_at is not None:
        return job.finished_at - job.assigned_at
    return now - known.since if known is not None else timedelta()


def _waits(job: JobMessage, now: datetime) -> WaitingJob:
    """As the record keeps it: one that was read from there is found by the same texts."""
    (entry,) = fitting_waiting((WaitingJob(job.job_id, now, job.repository, _run(job), job.name),))
    return entry


def _starts(job: JobMessage, now: datetime) -> StartedJob:
    return StartedJob(job.job_id, job.runner, job.repository, _run(job), job.name, now)


def _run(job: JobMessage) -> str:
    return str(job.workflow_run) if job.workflow_run else ""


def _fields(job: JobMessage) -> dict[str, object]:
    """Those that name it in a log line."""
    return {"job": job.name, "repository": job.repository, "run": _run(job)}
