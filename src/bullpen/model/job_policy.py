"""Job policy: how soon an assignment is taken up, whose result counts, and what becomes of a job that comes back.

    assign       until `verify` seconds later its worker has to report that it runs the job
    finish       only the current assignment has a result, and reporting it twice changes nothing
    give back    its worker is lost, or leaves: back to the queue, after a wait that doubles with each loss
    spread       a runner that has had one leaves the next to a runner that has had none, if there is one for each

             loss 1          loss 2           loss 3 = `losses`
    running ───────▶ queued ───────▶ queued ──────────────────▶ finished: failed
                      1 s             2 s

The server and an agent that runs beside the store both decide by these functions, so that it makes no difference which
of them writes. They are pure: the record and the time in, a change out.
"""

from datetime import datetime, timedelta

from bullpen.lazy_dataclass import dataclass
from bullpen.model import job as steps
from bullpen.model.job import LOSSES, Job, Result
from bullpen.model.transition import Change
from bullpen.model.worker import Worker

FIRST_WAIT = 1.0  # seconds until a job that came back may be assigned again; doubled with each loss
SPREAD_FOR = 30.0  # seconds that a job is left to a runner that has had none: one that lives takes it in milliseconds


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """The settings that jobs go by. Times in seconds."""

    verify: float  # `liveness.verify`: a job assigned and not taken up by then got lost on the way
    purge: float  # `timings.purge`: how long a finished job stays readable
    losses: int = LOSSES  # `liveness.losses`: how many workers a job may lose before it fails


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment of a job, as its worker names it."""

    worker: str
    epoch: int
    fence: int

    def is_current(self, job: Job | None) -> bool:
        """True while the job runs under this assignment."""
        return job is not None and job.state is steps.RUNNING and self._holds(job)

    def has_finished(self, job: Job, exit_code: int) -> bool:
        """True if this very result is the one that stands: it was reported before, and its answer was lost."""
        return job.state is steps.FINISHED and self._holds(job) and job.exit_code == exit_code

    def _holds(self, job: Job) -> bool:
        return (job.worker, job.epoch, job.fence) == (self.worker, self.epoch, self.fence)


def assign(job: Job, policy: JobPolicy, now: datetime, *, worker: Worker, instance_id: str) -> Change[Job]:
    """Give a queued job to a worker, which has to take it up within `verify`. Raise InvalidTransition or Conflict."""
    return steps.assign(
        job,
        steps.Assigned(
            at=now,
            by=worker.id,
            worker=worker.id,
            epoch=worker.epoch,
            instance_id=instance_id,
            verify_by=now + timedelta(seconds=policy.verify),
        ),
    )


def is_left_to_others(job: Job, now: datetime, *, waiting: int, free: int) -> bool:
    """True if a runner that has had a job leaves this one to another: N jobs on N runners are one on each.

    `free` runners of the run live and have had none since the job was submitted; `waiting` jobs wait. Where more jobs
    wait than such runners live, every runner takes what comes: that is a queue. After `SPREAD_FOR` any runner may have
    the job, so it never waits for one that will not take it.
    """
    since = job.not_before or job.queued_at
    if since is None or now >= since + timedelta(seconds=SPREAD_FOR):
        return False
    return 0 < waiting <= free


def finish(
    job: Job,
    policy: JobPolicy,
    now: datetime,
    *,
    assignment: Assignment,
    exit_code: int,
    result: Result = Result.NONE,
    why: str = "",
) -> Change[Job]:
    """End a job with the result that its worker reports; without one, the exit code decides.

    Raise InvalidTransition or Conflict unless the assignment is the current one.
    """
    return steps.finish(
        job,
        steps.Ran(
            at=now,
            by=assignment.worker,
            why=why,
            worker=assignment.worker,
            epoch=assignment.epoch,
            fence=assignment.fence,
            exit_code=exit_code,
            result=result or (Result.SUCCEEDED if exit_code == 0 else Result.FAILED),
            purge_at=now + timedelta(seconds=policy.purge),
        ),
    )


def give_back(job: Job, policy: JobPolicy, now: datetime, *, by: str, why: str) -> Change[Job]:
    """Take a running job from its worker: back to the queue, for another one; or the end, for a job that is being
    cancelled or has lost too many workers."""
    lost = job.losses + 1
    if job.cancelling:
        return give_up(job, policy, now, by=by, why=f"{job.reason or 'cancelled'}; {why}", result=Result.CANCELLED)
    if lost >= policy.losses:
        often = f"lost {lost} times; the last time" if lost > 1 else "lost once"
        return give_up(job, policy, now, by=by, why=f"{often}: {why}")
    return steps.reschedule(
        job,
        steps.Lost(
            at=now,
            by=by,
            why=why,
            worker=job.worker,
            epoch=job.epoch,
            fence=job.fence,
            not_before=now + timedelta(seconds=FIRST_WAIT * 2**job.losses),
        ),
    )


def give_up(
    job: Job, policy: JobPolicy, now: datetime, *, by: str, why: str, result: Result = Result.FAILED
) -> Change[Job]:
    """End a job that no worker will finish."""
    purge_at = now + timedelta(seconds=policy.purge)
    return steps.give_up(job, steps.GivenUp(at=now, by=by, why=why, purge_at=purge_at, result=result))
