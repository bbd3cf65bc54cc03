"""Jobs as an agent beside the store takes and ends them, each within the caller's transaction.

What happens to a job is decided by `bullpen.model.job_policy`, as the server decides it; here is how it is written.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime

from bullpen.agent import progress
from bullpen.agent.config import Config
from bullpen.agent.progress import End
from bullpen.agent.store.rows import JOBS, WORKERS, micros
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import job_policy
from bullpen.model.job import Job, Result
from bullpen.model.job_policy import Assignment, JobPolicy


def take(connection: sqlite3.Connection, config: Config, key: str, run_id: str, round: str, at: datetime) -> Job | None:
    """Assign the next job that suits this worker while its lease holds and its instance runs in this round."""
    worker = WORKERS.read(connection, key)
    serves = connection.execute(_SERVES, (config.instance_id, run_id, round)).fetchone()
    if worker is None or not worker.takes_jobs(at) or not serves:
        return None
    job_id = next_job(connection, config, key, run_id, at)
    found = JOBS.read(connection, job_id) if job_id else None
    if found is None:
        return None
    change = job_policy.assign(found, _policy(config), at, worker=worker, instance_id=config.instance_id)
    return JOBS.land(connection, change)


def next_job(connection: sqlite3.Connection, config: Config, key: str, run_id: str, at: datetime) -> str | None:
    """The id of the job that `take` would assign: the oldest that may run now, those that were lost first."""
    can = config.capabilities
    now = micros(at)
    row = connection.execute(
        _NEXT.format(marks=", ".join("?" * len(can))), (run_id, now, *can, key, run_id, now, config.instance_id)
    ).fetchone()
    return row[0] if row else None


def standing(connection: sqlite3.Connection, held: progress.HeldJob) -> End | None:
    """Why a job that runs here must end, as the store has it; None: it may go on."""
    stored = JOBS.read(connection, held.id)
    if stored is None or not _assignment(held).is_current(stored):
        return End.LOST
    return End.CANCELLED if stored.cancelling else None


def finish(connection: sqlite3.Connection, config: Config, held: progress.HeldJob, at: datetime) -> bool:
    """Write the job's end; False if it was refused, because the assignment is not the current one."""
    stored = JOBS.read(connection, held.id)
    assert held.exit_code is not None, "a job that has not ended"
    if stored is None:
        return False
    assignment, (result, why) = _assignment(held), verdict(held)
    try:
        change = job_policy.finish(
            stored,
            _policy(config),
            at,
            assignment=assignment,
            exit_code=held.exit_code,
            result=result,
            why=why,
        )
    except (Conflict, InvalidTransition):
        return assignment.has_finished(stored, held.exit_code)
    JOBS.land(connection, change)
    return True


def verdict(held: progress.HeldJob) -> tuple[Result, str]:
    """The result of a job that has ended, and why."""
    match held.end:
        case End.CANCELLED:
            return Result.CANCELLED, "it was cancelled, and its processes were ended"
        case End.TIMED_OUT:
            return Result.TIMED_OUT, f"it ran longer than its {held.timeout:g} s, and its processes were ended"
        case End.RELEASED:
            return Result.CANCELLED, "its run was released"
    return (Result.SUCCEEDED, "") if held.exit_code == 0 else (Result.FAILED, f"exit code {held.exit_code}")


def give_back(connection: sqlite3.Connection, config: Config, held: progress.HeldJob, why: str, at: datetime) -> None:
    """The agent leaves: the job goes to another worker now, and not when the lease runs out."""
    stored = JOBS.read(connection, held.id)
    if stored is not None and _assignment(held).is_current(stored):
        change = job_policy.give_back(stored, _policy(config), at, by=held.holder.worker, why=why)
        JOBS.land(connection, change)


def _assignment(held: progress.HeldJob) -> Assignment:
    return Assignment(held.holder.worker, held.holder.epoch, held.fence)


def _policy(config: Config) -> JobPolicy:
    return JobPolicy(verify=config.verify, purge=config.purge, losses=config.losses)


_SERVES = "SELECT 1 FROM instances WHERE id = ? AND state = 'running' AND run_id = ? AND round = ?"
# A job that we lost goes to another worker of the run, while there is one whose lease holds.
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
