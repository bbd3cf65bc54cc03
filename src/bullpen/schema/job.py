"""A job: what was asked for, which worker has it, and how it ended."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, field

from bullpen.model.job import Durations, Job, began_at, durations, shell_exit_code
from bullpen.model.job import Result as JobResult
from bullpen.model.job import State as JobState
from bullpen.model.transition import StoryLine
from bullpen.schema.base import AnswerBody, Time, filled
from bullpen.schema.story import StoryLineAnswer, lines_of


class JobAnswer(AnswerBody, frozen=True):
    """`worker` and `epoch` name the worker that has it, or had it last; lists leave out `story` and durations."""

    id: Annotated[str, Meta(description="Id of the job.")]
    run_id: Annotated[str, Meta(description="Run that it belongs to.")]
    name: Annotated[str, Meta(description="Name that it was submitted with.")]
    index: Annotated[int, Meta(description="Place among the jobs of its run, as it was submitted.")]
    command: Annotated[tuple[str, ...], Meta(description="Program and arguments.")]
    state: Annotated[JobState, Meta(description="State of the job.")]
    result: Annotated[JobResult, Meta(description="How it ended; empty until then.")]
    exit_code: Annotated[
        int | None,
        Meta(
            description="Exit code of the command, 128 + N if signal N ended it; null until then, and if it never ran."
        ),
    ]
    reason: Annotated[str, Meta(description="Why it ended as it did, for people.")]
    fence: Annotated[int, Meta(description="Number of its assignments so far: each names a log of its own.")]
    worker: Annotated[str, Meta(description="Key of the worker that has it, or had it last; empty if none.")]
    epoch: Annotated[int, Meta(description="Epoch of that worker.")]
    instance_id: Annotated[str, Meta(description="Instance of that worker; empty if none.")]
    losses: Annotated[int, Meta(description="How many runners it has lost.")]
    cancelling: Annotated[bool, Meta(description="Whether its worker was asked to end it.")]
    timeout_seconds: Annotated[float, Meta(description="Seconds that it may run; 0 for no limit.")]
    capability: Annotated[str, Meta(description="Capability that its worker needs; empty for any worker.")]
    side_effects: Annotated[bool, Meta(description="Whether it must not run twice at the same time.")]
    source: Annotated[str, Meta(description="Id of the files that it works on; empty for none.")]
    artifacts: Annotated[tuple[str, ...], Meta(description="Patterns of files that are kept when it has ended.")]
    queued_at: Annotated[Time | None, Meta(description="When it was submitted, or went back to the queue.")]
    finished_at: Annotated[Time | None, Meta(description="When it ended; null until then.")]
    waited_seconds: Annotated[
        float | None,
        Meta(description="Seconds from `queuedAt` until a runner took it; null before, and without the story."),
    ] = None
    ran_seconds: Annotated[
        float | None,
        Meta(description="Seconds that it ran on its last runner; null until it has ended, and without the story."),
    ] = None
    story: Annotated[list[StoryLineAnswer], Meta(description="Its last steps, oldest first. Lists leave them out.")] = (
        field(default_factory=list)
    )


class JobLog(JobAnswer, frozen=True):
    """The job with what it has printed, attempt after attempt."""

    lines: Annotated[list[str], Meta(description="What it has printed.")] = field(default_factory=list)


class JobList(AnswerBody, frozen=True):
    """Jobs of a run. A page is in the order in which its jobs were submitted; the pages follow the ids. `next` is where
    the next page begins; empty at the end."""

    run_id: Annotated[str, Meta(description="The run.")]
    jobs: Annotated[list[JobAnswer], Meta(description="The jobs of this page.")]
    next: Annotated[str, Meta(description="`after` of the next page; empty at the end.")] = ""


def job_of(job: Job, story: Sequence[StoryLine] = ()) -> JobAnswer:
    """With its story, also how long it waited and ran: times are in whole seconds, and few jobs are."""
    spent = durations(job, began_at((line.step, line.at) for line in story)) if story else Durations()
    return filled(
        JobAnswer,
        job,
        exit_code=None if job.exit_code is None else shell_exit_code(job.exit_code),
        timeout_seconds=job.timeout,
        capability=job.own_capability,
        waited_seconds=spent.waited,
        ran_seconds=spent.ran,
        story=lines_of(story),
    )


def log_of(job: JobAnswer, lines: list[str]) -> JobLog:
    """Without the job's story."""
    return filled(JobLog, job, lines=lines, story=[])


def jobs_of(run_id: str, jobs: Sequence[Job], next: str = "") -> JobList:
    return JobList(run_id, [job_of(job) for job in jobs], next)
