"""A job comes back from a worker that is lost, or that leaves: another one gets it, or it has been lost too often."""

from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.errors import Conflict, InvalidTransition
from bullpen.jobs.queries import find
from bullpen.model import job as steps
from bullpen.model.job import Job, Result
from bullpen.model.transition import Change
from bullpen.ports import Ports

FIRST_WAIT = 1.0  # seconds until a lost job may be assigned again; doubled with each loss


def rescue(job: Job, settings: Settings, now: datetime, *, by: str, why: str) -> Change[Job]:
    """Back to the queue, for another worker; or the end, for one that is being cancelled or was lost too often."""
    purge_at = now + timedelta(seconds=settings.timings.purge)
    lost = job.losses + 1
    if job.cancelling:
        end = steps.GivenUp(at=now, by=by, why=f"cancelled; {why}", purge_at=purge_at, result=Result.CANCELLED)
        return steps.give_up(job, end)
    if lost >= settings.liveness.losses:
        reason = f"lost {lost} times; the last time: {why}"
        return steps.give_up(job, steps.GivenUp(at=now, by=by, why=reason, purge_at=purge_at))
    not_before = now + timedelta(seconds=FIRST_WAIT * 2**job.losses)
    return steps.reschedule(
        job,
        steps.Lost(at=now, by=by, why=why, worker=job.worker, epoch=job.epoch, fence=job.fence, not_before=not_before),
    )


async def give_back(
    ports: Ports, settings: Settings, job_id: str, *, worker: str, epoch: int, fence: int, why: str
) -> Job:
    """Queue a job again, if it is the holder who says so; else it stays as it is. Raise NotFound.

    A worker that leaves does this: another may have the job at once, and not only when the lease runs out.
    """
    while True:
        job = await find(ports, job_id)
        if job.state is not steps.RUNNING or (job.worker, job.epoch, job.fence) != (worker, epoch, fence):
            return job
        try:
            (landed,) = await ports.records.apply(rescue(job, settings, ports.clock.now(), by=worker, why=why))
            assert isinstance(landed, Job)
            return landed
        except (Conflict, InvalidTransition):
            continue  # it moved between our look and our write: look again
