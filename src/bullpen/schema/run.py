"""A run: in the list of those that the pool serves, as it stands, and what became of one that `bullpen run` served."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.model.job import Job
from bullpen.model.provision import RunState
from bullpen.schema.base import AnswerBody, Time, WorkState, filled, time_of
from bullpen.schema.instance import InstanceAnswer
from bullpen.schema.job import JobAnswer, job_of

if TYPE_CHECKING:
    from bullpen.inventory import RunList, RunView
    from bullpen.run import RunOutcome


class RunAnswer(AnswerBody, frozen=True):
    """A run's instances and jobs as they stand. Of a great many jobs, the first page: `nextJob` is where `GET /v1/jobs`
    goes on; empty if these are all."""

    run_id: Annotated[str, Meta(description="The run.")]
    instances: Annotated[list[InstanceAnswer], Meta(description="Its live instances, by id.")]
    jobs: Annotated[list[JobAnswer], Meta(description="Its jobs, the first page.")]
    next_job: Annotated[
        str, Meta(description="`after` for `GET /v1/jobs`, where the next page of jobs begins; empty if these are all.")
    ] = ""


class RunSummary(AnswerBody, frozen=True):
    """A run that the pool serves now, or is asked to serve. `wanted` is how many runners its provisions ask for, `held`
    how many instances belong to it now. `queuedJobs` and `runningJobs` are jobs of the embedded CI, and count up to
    1,000 together. `since` is when its oldest provision that still counts was opened; absent if it has none.
    `waitsFor` is the setting of the cap that a waiting run waits for; empty if it waits for none."""

    id: Annotated[str, Meta(description="Id of the run. It is also the label of its runners.")]
    state: Annotated[RunState, Meta(description="State of the run.")]
    resource_classes: Annotated[list[str], Meta(description="Resource classes of its runners.")]
    wanted: Annotated[int, Meta(description="How many runners its provisions ask for.")]
    held: Annotated[int, Meta(description="How many instances belong to it now.")]
    queued_jobs: Annotated[
        int,
        Meta(
            description="Jobs of the embedded CI that wait. Queued and running jobs are counted up to 1,000 together."
        ),
    ]
    running_jobs: Annotated[int, Meta(description="Jobs of the embedded CI that run.")]
    since: Annotated[
        Time | None, Meta(description="When its oldest provision that still counts was opened; null if it has none.")
    ]
    repository: Annotated[str, Meta(description="Repository of the run; empty if it has none.")]
    waits_for: Annotated[str, Meta(description="Setting of the cap that it waits for; empty if it waits for none.")]


class RunPage(AnswerBody, frozen=True):
    """Runs by id. `next` is where the next page begins; empty at the end."""

    runs: Annotated[list[RunSummary], Meta(description="The runs of this page, by id.")]
    next: Annotated[str, Meta(description="`after` of the next page; empty at the end.")]


class RunJob(JobAnswer, frozen=True):
    """The last try of a job. `attempts` is how often it was started: again after the loss of a runner, and again after
    a failure; `earlier` has the ids of the tries that failed before, `files` the artifacts that were brought back."""

    started_at: str | None = None
    attempts: int = 0
    earlier: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class RunResult(AnswerBody, frozen=True):
    """A run that was served to its end: its jobs, and what became of its instances, as a release answers.

    `failed_first` is the id of the job whose failure cancelled the others, with `--fail-fast`."""

    run_id: str
    state: WorkState
    exit_code: int
    interrupted: bool
    jobs: list[RunJob]
    seconds: float = 0.0
    failed_first: str = ""
    offered: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


def run_result_of(ran: "RunOutcome") -> RunResult:
    return filled(
        RunResult,
        ran,
        ran.released,
        run_id=ran.outcome.run_id,
        state=WorkState.SUCCEEDED if ran.exit_code == 0 else WorkState.FAILED,
        jobs=[_run_job(ran, job) for job in ran.jobs],
        seconds=round(ran.seconds, 3),
        failed_first=ran.failed_first.id if ran.failed_first else "",
    )


def _run_job(ran: "RunOutcome", job: Job) -> RunJob:
    spent = ran.durations(job)
    return filled(
        RunJob,
        job_of(job),
        started_at=time_of(ran.started.get(job.id)),
        waited_seconds=spent.waited,
        ran_seconds=spent.ran,
        attempts=ran.attempts(job),
        earlier=tuple(one.id for one in ran.earlier.get(job.id, ())),
        files=ran.files.get(job.id, ()),
    )


def run_summary_of(run: "RunView") -> RunSummary:
    return filled(
        RunSummary,
        run,
        resource_classes=list(run.classes),
        queued_jobs=run.queued,
        running_jobs=run.running,
        since=time_of(run.since),
    )


def run_page_of(found: "RunList") -> RunPage:
    return RunPage([run_summary_of(run) for run in found.runs], found.next)
