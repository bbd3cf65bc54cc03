"""A job: what was asked for, which worker has it, and how it ended."""

from collections.abc import Sequence

from msgspec import field

from bullpen.model.job import Job
from bullpen.model.job import Result as JobResult
from bullpen.model.job import State as JobState
from bullpen.model.transition import StoryLine
from bullpen.schema.base import AnswerBody, filled
from bullpen.schema.story import StoryLineAnswer, lines_of


class JobAnswer(AnswerBody, frozen=True):
    """`worker` and `epoch` name the worker that has it, or had it last; lists leave out `story`."""

    id: str
    run_id: str
    name: str
    index: int
    command: tuple[str, ...]
    state: JobState
    result: JobResult
    exit_code: int | None
    reason: str
    fence: int
    worker: str
    epoch: int
    instance_id: str
    losses: int
    cancelling: bool
    timeout_seconds: float
    capability: str
    side_effects: bool
    source: str
    artifacts: tuple[str, ...]
    queued_at: str | None
    finished_at: str | None
    story: list[StoryLineAnswer] = field(default_factory=list)


class JobLog(JobAnswer, frozen=True):
    """The job with what it has printed, attempt after attempt."""

    lines: list[str] = field(default_factory=list)


class JobList(AnswerBody, frozen=True):
    """Jobs of a run. A page is in the order in which its jobs were submitted; the pages follow the ids. `next` is where
    the next page begins; empty at the end."""

    run_id: str
    jobs: list[JobAnswer]
    next: str = ""


def job_of(job: Job, story: Sequence[StoryLine] = ()) -> JobAnswer:
    return filled(JobAnswer, job, timeout_seconds=job.timeout, capability=job.own_capability, story=lines_of(story))


def log_of(job: JobAnswer, lines: list[str]) -> JobLog:
    """Without the job's story."""
    return filled(JobLog, job, lines=lines, story=[])


def jobs_of(run_id: str, jobs: Sequence[Job], next: str = "") -> JobList:
    return JobList(run_id, [job_of(job) for job in jobs], next)
