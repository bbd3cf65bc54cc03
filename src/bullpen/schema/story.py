"""A record's last steps, and what it owes."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Meta, field

from bullpen.model.activity import Activity
from bullpen.model.instance import Instance, InstanceDebt
from bullpen.model.instance import State as InstanceState
from bullpen.model.job import State as JobState
from bullpen.model.pause import State as PauseState
from bullpen.model.provision import Provision, ProvisionDebt
from bullpen.model.provision import State as ProvisionState
from bullpen.model.repository import State as RepositoryState
from bullpen.model.rotation import State as RotationState
from bullpen.model.scale_set import ScaleSet, SetDebt
from bullpen.model.scale_set import State as SetState
from bullpen.model.set_session import SetSession, WaitingJob
from bullpen.model.set_session import State as SessionState
from bullpen.model.ticket import format_time
from bullpen.model.transition import Debt, StoryLine
from bullpen.model.worker import State as WorkerState
from bullpen.schema.base import AnswerBody, Time, filled, time_of

if TYPE_CHECKING:
    from bullpen.inventory import Story

RECORD_STATES = sorted(
    {
        one.value
        for kind in (
            *(InstanceState, ProvisionState, JobState, WorkerState, RepositoryState, SetState, SessionState),
            *(PauseState, RotationState),
        )
        for one in kind
        if one != "absent"
    }
)
RecordState: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": RECORD_STATES})]
"""The state of an instance, a provision, a job, a worker, a repository, a scale set or its session, a pause or a
rotation."""


class DebtKind(StrEnum):
    """What an instance, a provision or a scale set may owe."""

    TERMINATE = InstanceDebt.TERMINATE.value
    OFFER = InstanceDebt.OFFER.value
    SETTLE = ProvisionDebt.SETTLE.value
    RELEASE = ProvisionDebt.RELEASE.value
    RETIRE = SetDebt.RETIRE.value


class DebtAnswer(AnswerBody, frozen=True):
    """Work that a record owes. Another process does it from `dueAt` on."""

    kind: Annotated[DebtKind, Meta(description="What is owed.")]
    due_at: Annotated[Time, Meta(description="From when on another process does it.")]


class StoryLineAnswer(AnswerBody, frozen=True):
    """One step of a record: the state that it led to, when, by which process and why."""

    version: Annotated[int, Meta(description="Number of this change of the record.")]
    step: Annotated[str, Meta(description="Name of the step.")]
    state: Annotated[RecordState, Meta(description="State that it led to.")]
    at: Annotated[Time, Meta(description="When it happened.")]
    by: Annotated[str, Meta(description="Process that made it.")]
    why: Annotated[str, Meta(description="Why; empty if that is plain.")]


class CiJobAnswer(AnswerBody, frozen=True):
    """The job that a runner executes for a CI with jobs of its own. `run` is the CI's number of the run."""

    repository: Annotated[str, Meta(description="Repository of the job.")]
    run: Annotated[str, Meta(description="The CI's number of the run.")]
    attempt: Annotated[int, Meta(description="Attempt of the run.")]
    name: Annotated[str, Meta(description="Name of the job.")]
    runner: Annotated[str, Meta(description="Name under which the CI knows the runner.")]


class WaitingJobAnswer(AnswerBody, frozen=True):
    """A job of a scale set that waits for a runner. `repository`, `run` and `name` are empty where GitHub only counts
    it."""

    repository: Annotated[str, Meta(description="Repository of the job.")]
    run: Annotated[str, Meta(description="GitHub's number of the run.")]
    name: Annotated[str, Meta(description="Name of the job.")]
    since: Annotated[Time, Meta(description="Since when it is known to wait.")]
    lapses: Annotated[int, Meta(description="How often GitHub took it back because no runner was ready in time.")]
    why: Annotated[str, Meta(description="Why it waits.")]


class StoryAnswer(AnswerBody, frozen=True):
    """What is left of a record (`state` is null once it is purged) and its last steps, oldest first."""

    id: Annotated[str, Meta(description="Id of the record; the key of a worker.")]
    state: Annotated[RecordState | None, Meta(description="State of the record; null once it is purged.")]
    owes: Annotated[DebtAnswer | None, Meta(description="Work that it owes; null if none.")]
    leaving_at: Annotated[
        Time | None, Meta(description="When its machine is going to be taken away; null if that is not known.")
    ]
    job: Annotated[
        CiJobAnswer | None, Meta(description="Job of a CI with jobs of its own that it runs now; null if none.")
    ]
    story: Annotated[list[StoryLineAnswer], Meta(description="Its last steps, oldest first.")]
    waiting: Annotated[
        list[WaitingJobAnswer], Meta(description="Jobs that wait, of the session of a scale set; at most 50.")
    ] = field(default_factory=list)


class StoryList(AnswerBody, frozen=True):
    """The stories of everything that `id` names: one record, or all that belong to a run."""

    id: Annotated[str, Meta(description="What was asked for.")]
    stories: Annotated[list[StoryAnswer], Meta(description="One story for each record.")]


def story_of(story: "Story") -> StoryAnswer:
    record = story.record
    return StoryAnswer(
        id=story.id,
        state=record.state.value if record else None,
        owes=debt_of(record.owes) if isinstance(record, Instance | Provision | ScaleSet) else None,
        leaving_at=time_of(story.leaving),
        job=ci_job_of(story.activity),
        story=lines_of(story.lines),
        waiting=[_waiting_job(one) for one in record.waiting] if isinstance(record, SetSession) else [],
    )


def _waiting_job(one: WaitingJob) -> WaitingJobAnswer:
    return filled(WaitingJobAnswer, one, since=format_time(one.since))


def lines_of(lines: Iterable[StoryLine]) -> list[StoryLineAnswer]:
    return [StoryLineAnswer(one.version, one.step, one.state, format_time(one.at), one.by, one.why) for one in lines]


def debt_of(debt: Debt | None) -> DebtAnswer | None:
    return DebtAnswer(DebtKind(debt.kind.value), format_time(debt.due_at)) if debt else None


def ci_job_of(activity: Activity | None) -> CiJobAnswer | None:
    """None while its runner prepares it: the agent does not know yet which job it is."""
    return filled(CiJobAnswer, activity, name=activity.job) if activity and activity.is_named else None
