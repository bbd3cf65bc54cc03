"""Beats and jobs for the suites of workers and jobs."""

from datetime import datetime
from itertools import count
from typing import Any

from builders import BY, NOW, later
from bullpen.model import job as jobs
from bullpen.model import worker as workers
from bullpen.model.job import Job
from bullpen.model.transition import Change
from bullpen.model.worker import Accepted, Beat, Worker
from bullpen.ports import Records, Workers

KEY = "i-1/0a1b2c3d"

_requests = count(1)


def a_beat(token: int = 0, **changed: Any) -> Beat:
    fields: dict[str, Any] = {
        "at": NOW,
        "by": BY,
        "token": token,
        "lease": 60.0,
        "instance_id": "i-1",
        "domain": "zone-a",
    }
    return Beat(**{**fields, "request_id": f"request-{next(_requests)}", **changed})


async def beaten(workers: Workers, key: str = KEY, **changed: Any) -> Accepted:
    (answer,) = await workers.beat([(key, a_beat(**changed))])
    assert isinstance(answer, Accepted), answer
    return answer


async def accepted(workers: Workers, key: str = KEY, **changed: Any) -> Worker:
    answer = await beaten(workers, key, **changed)
    worker = await stored(workers, key)
    assert answer[:3] == Accepted.of(worker)[:3]
    return worker


async def stored(workers: Workers, key: str = KEY) -> Worker:
    return (await workers.workers([key]))[key]


def lose(worker: Worker, at: datetime, **changed: Any) -> Change[Worker]:
    fields: dict[str, Any] = {"deadline": worker.deadline, "cleanup_at": later(3600), **changed}
    return workers.lose_lease(worker, workers.LeaseExpired(at=at, by=BY, **fields))


def clean_up(worker: Worker, purge_at: datetime) -> Change[Worker]:
    assert worker.cleanup_at is not None
    event = workers.CleanupDue(at=worker.cleanup_at, by=BY, cleanup_at=worker.cleanup_at, purge_at=purge_at)
    return workers.clean_up(worker, event)


def stop(worker: Worker, purge_at: datetime) -> Change[Worker]:
    event = workers.Stopped(at=NOW, by=worker.id, token=worker.token, epoch=worker.epoch, purge_at=purge_at)
    return workers.stop(worker, event)


def settle(worker: Worker) -> Change[Worker]:
    step = {workers.INACTIVE: workers.settle_inactive, workers.CLEANED_UP: workers.settle_cleaned_up}
    return step[worker.state](worker, workers.Rescheduled(at=NOW, by=BY, epoch=worker.lost_epoch))


async def lost(records: Records, workers: Workers, key: str = KEY, **changed: Any) -> Worker:
    """A worker whose lease of a minute ran out."""
    worker = await accepted(workers, key)
    (inactive,) = await records.apply(lose(worker, later(60), **changed))
    assert isinstance(inactive, Worker)
    return inactive


# ---- jobs


def submit(job_id: str = "j-1", run_id: str = "run-1", at: datetime = NOW, **changed: Any) -> Change[Job]:
    return jobs.submit(jobs.absent(job_id, run_id, ("make", "test")), jobs.Submitted(at=at, by=BY, **changed))


def assign(job: Job, worker: str = KEY, epoch: int = 1, **changed: Any) -> Change[Job]:
    fields: dict[str, Any] = {"at": NOW, "instance_id": "i-1", "verify_by": later(120), **changed}
    return jobs.assign(job, jobs.Assigned(by=BY, worker=worker, epoch=epoch, **fields))


def bind(job: Job) -> Change[Job]:
    return jobs.bind(job, jobs.Holder(at=NOW, by=BY, worker=job.worker, epoch=job.epoch, fence=job.fence))


def reschedule(job: Job, not_before: datetime = NOW) -> Change[Job]:
    held = {"worker": job.worker, "epoch": job.epoch, "fence": job.fence}
    return jobs.reschedule(job, jobs.Lost(at=NOW, by=BY, not_before=not_before, **held))  # type: ignore[arg-type]


def finish(job: Job, purge_at: datetime, **changed: Any) -> Change[Job]:
    held: dict[str, Any] = {"worker": job.worker, "epoch": job.epoch, "fence": job.fence, **changed}
    event = jobs.Ran(at=NOW, by=BY, exit_code=0, result=jobs.Result.SUCCEEDED, purge_at=purge_at, **held)
    return jobs.finish(job, event)


async def submitted(records: Records, job_id: str = "j-1", run_id: str = "run-1", **changed: Any) -> Job:
    (job,) = await records.apply(submit(job_id, run_id, **changed))
    assert isinstance(job, Job)
    return job


async def assigned(records: Records, job_id: str = "j-1", worker: str = KEY, epoch: int = 1, **changed: Any) -> Job:
    (job,) = await records.apply(assign(await submitted(records, job_id), worker, epoch, **changed))
    assert isinstance(job, Job)
    return job
