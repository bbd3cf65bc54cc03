"""A run: in the list of those that the pool serves, as it stands, and what became of one that `bullpen run` served."""

from bullpen.inventory import RunList, RunState, RunView
from bullpen.run import RunOutcome
from bullpen.schema.base import AnswerBody, WorkState, filled, time_of
from bullpen.schema.instance import InstanceAnswer
from bullpen.schema.job import JobAnswer, job_of


class RunAnswer(AnswerBody, frozen=True):
    """A run's instances and jobs as they stand. Of a great many jobs, the first page: `nextJob` is where `GET /v1/jobs`
    goes on; empty if these are all."""

    run_id: str
    instances: list[InstanceAnswer]
    jobs: list[JobAnswer]
    next_job: str = ""


class RunSummary(AnswerBody, frozen=True):
    """A run that the pool serves now, or is asked to serve. `wanted` is how many runners its provisions ask for, `held`
    how many instances belong to it now. `queuedJobs` and `runningJobs` are jobs of the embedded CI, and count up to
    1,000 together. `since` is when its oldest provision that still counts was opened; absent if it has none.
    `waitsFor` is the setting of the cap that a waiting run waits for; empty if it waits for none."""

    id: str
    state: RunState
    resource_classes: list[str]
    wanted: int
    held: int
    queued_jobs: int
    running_jobs: int
    since: str | None
    repository: str
    waits_for: str


class RunPage(AnswerBody, frozen=True):
    """Runs by id. `next` is where the next page begins; empty at the end."""

    runs: list[RunSummary]
    next: str


class RunResult(AnswerBody, frozen=True):
    """A run that was served to its end: its jobs, and what became of its instances, as a release answers."""

    run_id: str
    state: WorkState
    exit_code: int
    interrupted: bool
    jobs: list[JobAnswer]
    offered: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


def run_result_of(ran: RunOutcome) -> RunResult:
    return filled(
        RunResult,
        ran,
        ran.released,
        run_id=ran.outcome.run_id,
        state=WorkState.SUCCEEDED if ran.exit_code == 0 else WorkState.FAILED,
        jobs=[job_of(job) for job in ran.jobs],
    )


def run_summary_of(run: RunView) -> RunSummary:
    return filled(
        RunSummary,
        run,
        resource_classes=list(run.classes),
        queued_jobs=run.queued,
        running_jobs=run.running,
        since=time_of(run.since),
    )


def run_page_of(found: RunList) -> RunPage:
    return RunPage([run_summary_of(run) for run in found.runs], found.next)
