"""Jobs as an agent beside the store takes and ends them, each within the caller's transaction."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta

from bullpen.agent import progress
from bullpen.agent.config import Config
from bullpen.agent.progress import End
from bullpen.agent.store.rows import JOBS, WORKERS, micros
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import job as steps
from bullpen.model.job import Job, Result

BACKOFF = 1.0  # seconds until a job that we give back may be taken by another


def take(connection: sqlite3.Connection, config: Config, key: str, run_id: str, round: str, at: datetime) -> Job | None:
    """Assign the next job that suits us, while our lease holds and our instance runs for the run in this round."""
    worker = WORKERS.read(connection, key)
    serves = connection.execute(_SERVES, (config.instance_id, run_id, round)).fetchone()
    if worker is None or not worker.takes_jobs(at) or not serves:
        return None
    job_id = next_job(connection, config, key, run_id, at)
    found = JOBS.read(connection, job_id) if job_id else None
    if found is None:
        return None
    event = steps.Assigned(
        at=at,
        by=key,
        worker=key,
        epoch=worker.epoch,
        instance_id=config.instance_id,
        verify_by=at + timedelta(seconds=config.verify),
    )
    return JOBS.land(connection, steps.assign(found, event))


def next_job(connection: sqlite3.Connection, config: Config, key: str, run_id: str, at: datetime) -> str | None:
    """The id of the job that `take` would assign: the oldest that may run now, those that were lost first."""
    can = config.capabilities
    now = micros(at)
    row = connection.execute(
        _NEXT.format(marks=", ".join("?" * len(can))), (run_id, now, *can, key, run_id, now, config.instance_id)
    ).fetchone()
    return row[0] if row else None


def standing(connection: sqlite3.Connection, held: progress.Job) -> End | None:
    """Why a job that we run must end, as the store has it; None if it may go on."""
    stored = JOBS.read(connection, held.id)
    if stored is None or stored.state is not steps.RUNNING or not _is_ours(stored, held):
        return End.LOST
    return End.CANCELLED if stored.cancelling else None


def finish(connection: sqlite3.Connection, config: Config, held: progress.Job, at: datetime) -> bool:
    """Write the job's end; False if it was refused, because the assignment is not the current one."""
    stored = JOBS.read(connection, held.id)
    assert held.exit_code is not None, "a job that has not ended"
    result, why = verdict(held)
    event = steps.Ran(
        at=at,
        by=held.holder.worker,
        why=why,
        worker=held.holder.worker,
        epoch=held.holder.epoch,
        fence=held.fence,
        exit_code=held.exit_code,
        result=result,
        purge_at=at + timedelta(seconds=config.purge),
    )
    try:
        if stored is None:
            return False
        JOBS.land(connection, steps.finish(stored, event))
    except (Conflict, InvalidTransition):
        return False
    return True


def verdict(held: progress.Job) -> tuple[Result, str]:
    """The result of a job that has ended, and why."""
    match held.end:
        case End.CANCELLED:
            return Result.CANCELLED, "it was cancelled, and its processes were ended"
        case End.TIMED_OUT:
            return Result.TIMED_OUT, f"it ran longer than its {held.timeout:g} s, and its processes were ended"
        case End.RELEASED:
            return Result.CANCELLED, "its run was released"
    return (Result.SUCCEEDED, "") if held.exit_code == 0 else (Result.FAILED, f"exit code {held.exit_code}")


def give_back(connection: sqlite3.Connection, config: Config, held: progress.Job, why: str, at: datetime) -> None:
    """We leave: the job goes to another worker now, and not when our lease runs out."""
    stored = JOBS.read(connection, held.id)
    if stored is None or stored.state is not steps.RUNNING or not _is_ours(stored, held):
        return
    event = steps.Lost(
        at=at,
        by=held.holder.worker,
        why=why,
        worker=held.holder.worker,
        epoch=held.holder.epoch,
        fence=held.fence,
        not_before=at + timedelta(seconds=BACKOFF),
    )
    try:
        change = steps.reschedule(stored, event)
    except Conflict:
        result = Result.CANCELLED if stored.cancelling else Result.FAILED
        why = why if stored.cancelling else f"it lost its worker {stored.losses + 1} times; the last time: {why}"
        purge_at = at + timedelta(seconds=config.purge)
        over = steps.GivenUp(at=at, by=held.holder.worker, why=why, purge_at=purge_at, result=result)
        change = steps.give_up(stored, over)
    JOBS.land(connection, change)


def _is_ours(stored: Job, held: progress.Job) -> bool:
    return (stored.worker, stored.epoch, stored.fence) == (held.holder.worker, held.holder.epoch, held.fence)


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
