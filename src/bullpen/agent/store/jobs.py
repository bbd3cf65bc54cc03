"""Jobs as an agent beside the store takes and ends them.

What happens to a job is decided by `bullpen.model.job_policy`, as the server decides it; here is how it is written.
"""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime
from signal import Signals

from bullpen.agent.config import Config
from bullpen.agent.progress import End, HeldJob, InstanceRecord, LeaseHolder
from bullpen.agent.store.base import Order
from bullpen.agent.store.rows import JOBS, WORKERS
from bullpen.agent.store.sqlite import LogFile, SqliteStore
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import job_policy
from bullpen.model.job import Job, Result, able
from bullpen.model.job_policy import Assignment, JobPolicy
from bullpen.model.times import to_micros


class LocalJobs:
    """See `base.AgentJobs`. `key` is the worker's; it has none before its first heartbeat."""

    def __init__(self, store: SqliteStore, config: Config, key: str) -> None:
        self._store, self._config, self._key = store, config, key
        self._policy = JobPolicy(verify=config.verify, purge=config.purge, losses=config.losses)

    def take_job(self, record: InstanceRecord) -> Order | None:
        assert self._key, "a job is taken only after a first heartbeat"
        id_, run_id = self._config.instance_id, record.run_id
        with self._store.transaction(tells_control=True) as connection:
            at = datetime.now(UTC)
            worker = WORKERS.read(connection, self._key)
            serves = connection.execute(_SERVES, (id_, run_id, record.round)).fetchone()
            if worker is None or not worker.takes_jobs(at) or not serves:
                return None
            job_id = self.next_job(connection, run_id, at)
            found = JOBS.read(connection, job_id) if job_id else None
            if found is None:
                return None
            change = job_policy.assign(found, self._policy, at, worker=worker, instance_id=id_)
            taken = JOBS.land(connection, change)
            connection.execute(_IS_BUSY, (1, id_))
        holder = LeaseHolder(taken.worker, taken.epoch)
        job = HeldJob(taken.id, taken.fence, record.round, time.monotonic(), holder, taken.timeout)
        return Order(job, taken.command, taken.index, taken.source, taken.artifacts)

    def next_job(self, connection: sqlite3.Connection, run_id: str, at: datetime) -> str | None:
        """The id of the job that `take_job` would take: the oldest that may run now, those that were lost first."""
        can, now = able(self._config.capabilities, files=True), to_micros(at)
        marks = ", ".join("?" * len(can))
        asked = (run_id, now, *can, self._key, run_id, now, self._config.instance_id)
        row = connection.execute(_NEXT.format(marks=marks), asked).fetchone()
        if row is None:
            return None
        return None if self._leaves_it(connection, JOBS.read(connection, row[0]), at) else str(row[0])

    def _leaves_it(self, connection: sqlite3.Connection, job: Job | None, at: datetime) -> bool:
        """True if this runner has had one of the jobs that wait, and there is one for each that has had none."""
        if job is None or job.queued_at is None:
            return False
        can, now = able(self._config.capabilities, files=True), to_micros(at)
        id_ = self._config.instance_id
        others = [row[0] for row in connection.execute(_OTHERS, (job.run_id, id_, now))]
        if not others:
            return False
        query = _WAITING.format(marks=", ".join("?" * len(can)))
        (waiting,) = connection.execute(query, (job.run_id, now, *can, len(others) + 1)).fetchone()
        if waiting > len(others):
            return False
        used = {row[0] for row in connection.execute(_USED, (job.run_id, to_micros(job.queued_at)))}
        free = sum(one not in used for one in others)
        return id_ in used and job_policy.is_left_to_others(job, at, waiting=waiting, free=free)

    def standing(self, job: HeldJob) -> End | None:
        with self._store.translated():
            stored = JOBS.read(self._store.connected(), job.id)
        if stored is None or not _assignment(job).is_current(stored):
            return End.LOST
        return End.CANCELLED if stored.cancelling else None

    def settle_job(self, job: HeldJob) -> bool:
        with self._store.transaction(tells_control=True) as connection:
            is_accepted = job.end is not End.LOST and self._finish(connection, job)
            connection.execute(_IS_BUSY, (0, self._config.instance_id))
        return is_accepted

    def _finish(self, connection: sqlite3.Connection, job: HeldJob) -> bool:
        stored = JOBS.read(connection, job.id)
        assert job.exit_code is not None, "a job that has not ended"
        if stored is None:
            return False
        assignment, code, (result, why), at = _assignment(job), job.exit_code, verdict(job), datetime.now(UTC)
        try:
            change = job_policy.finish(
                stored, self._policy, at, assignment=assignment, exit_code=code, result=result, why=why
            )
        except (Conflict, InvalidTransition):
            return assignment.has_finished(stored, code)
        JOBS.land(connection, change)
        return True

    def give_back_job(self, job: HeldJob, why: str) -> None:
        with self._store.transaction(tells_control=True) as connection:
            stored = JOBS.read(connection, job.id)
            if stored is not None and _assignment(job).is_current(stored):
                at, by = datetime.now(UTC), job.holder.worker
                JOBS.land(connection, job_policy.give_back(stored, self._policy, at, by=by, why=why))

    def open_log(self, job: HeldJob) -> LogFile:
        logs = self._config.home / "jobs"
        logs.mkdir(mode=0o700, exist_ok=True)
        return LogFile(logs / f"{job.id}.{job.fence}.log")


def verdict(held: HeldJob) -> tuple[Result, str]:
    """The result of a job that has ended, and why."""
    match held.end:
        case End.CANCELLED:
            return Result.CANCELLED, "its processes were ended"
        case End.TIMED_OUT:
            return Result.TIMED_OUT, f"it ran longer than its {held.timeout:g} s, and its processes were ended"
        case End.RELEASED:
            return Result.CANCELLED, "its run was released"
    if held.exit_code == 0:
        return Result.SUCCEEDED, ""
    return Result.FAILED, held.why or _how_it_ended(held.exit_code)


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        name = f" ({Signals(-exit_code).name})"
    except ValueError:  # of real time, which have numbers only
        name = ""
    return f"ended by signal {-exit_code}{name}"


def _assignment(held: HeldJob) -> Assignment:
    return Assignment(held.holder.worker, held.holder.epoch, held.fence)


_IS_BUSY = "UPDATE registrations SET busy = ? WHERE name = ?"
_SERVES = "SELECT 1 FROM instances WHERE id = ? AND state = 'running' AND run_id = ? AND round = ?"
# A job that this worker lost goes to another worker of the run, while there is one whose lease holds.
_NEXT = """
SELECT id FROM jobs
WHERE run_id = ? AND state = 'queued' AND (not_before IS NULL OR not_before <= ?)
  AND (capability = '' OR capability IN ({marks}))
  AND (avoid <> ? OR NOT EXISTS (
    SELECT 1 FROM instances JOIN workers ON workers.instance_id = instances.id
    WHERE instances.run_id = ? AND instances.run_id <> '' AND instances.state = 'running'
      AND workers.state = 'active' AND workers.deadline > ? AND instances.id <> ?))
ORDER BY losses = 0, queued_at, job_index, id LIMIT 1
"""
# A runner that has not beaten yet has only just been committed: its first heartbeat is on its way.
_OTHERS = """
SELECT id FROM instances AS other
WHERE run_id = ? AND run_id <> '' AND state = 'running' AND id <> ?
  AND (NOT EXISTS (SELECT 1 FROM workers WHERE instance_id = other.id AND instance_id <> '' AND state <> 'cleaned-up')
    OR EXISTS (SELECT 1 FROM workers WHERE instance_id = other.id AND instance_id <> '' AND state <> 'cleaned-up'
      AND state = 'active' AND deadline > ? AND leaving IS NULL))
"""
_WAITING = """
SELECT count(*) FROM (SELECT 1 FROM jobs
WHERE run_id = ? AND state = 'queued' AND (not_before IS NULL OR not_before <= ?)
  AND (capability = '' OR capability IN ({marks})) LIMIT ?)
"""
_USED = """
SELECT DISTINCT instance_id FROM jobs
WHERE run_id = ? AND instance_id <> '' AND (finished_at IS NULL OR finished_at >= ?)
"""
