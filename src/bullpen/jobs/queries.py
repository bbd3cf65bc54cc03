"""Read-only questions about jobs, and the settings that they go by."""

from bullpen.config import Settings
from bullpen.errors import NotFound
from bullpen.model.job import Job
from bullpen.model.job_policy import JobPolicy
from bullpen.ports import Ports

PAGE = 500


def policy_of(settings: Settings) -> JobPolicy:
    liveness = settings.liveness
    return JobPolicy(verify=liveness.verify, purge=settings.timings.purge, losses=liveness.losses)


async def find(ports: Ports, job_id: str) -> Job:
    """Raise NotFound."""
    if (found := (await ports.jobs.jobs([job_id])).get(job_id)) is None:
        raise NotFound(
            f"{job_id}: no such job",
            remedy="Run `bullpen job list --run-id ID` to list the jobs; ended ones are forgotten after timings.purge.",
        )
    return found


async def unfinished(ports: Ports, run_id: str) -> list[Job]:
    """Every job of a run that is queued or running: what the run did before costs nothing."""
    found: list[Job] = []
    while page := await ports.jobs.unfinished(run_id, PAGE, found[-1].id if found else ""):
        found += page
    return found


async def of_run(ports: Ports, run_id: str) -> list[Job]:
    """Every job of a run, in the order in which they were submitted."""
    found: list[Job] = []
    while page := await ports.jobs.of_run(run_id, PAGE, found[-1].id if found else ""):
        found += page
    return sorted(found, key=submission_order)


def submission_order(job: Job) -> tuple[bool, object, int, str]:
    """A key to sort jobs by, in the order in which they were submitted."""
    return (job.queued_at is None, job.queued_at, job.index, job.id)
