"""A record's last steps, and what it owes."""

from collections.abc import Iterable
from enum import StrEnum

from bullpen.inventory import Story
from bullpen.model.activity import Activity
from bullpen.model.instance import Instance, InstanceDebt
from bullpen.model.provision import Provision, ProvisionDebt
from bullpen.model.ticket import format_time
from bullpen.model.transition import Debt, StoryLine
from bullpen.schema.base import AnswerBody, filled, time_of


class DebtKind(StrEnum):
    """What an instance or a provision may owe."""

    TERMINATE = InstanceDebt.TERMINATE.value
    OFFER = InstanceDebt.OFFER.value
    SETTLE = ProvisionDebt.SETTLE.value
    RELEASE = ProvisionDebt.RELEASE.value


class DebtAnswer(AnswerBody, frozen=True):
    """Work that a record owes. Another process does it from `dueAt` on."""

    kind: DebtKind
    due_at: str


class StoryLineAnswer(AnswerBody, frozen=True):
    """One step of a record: the state that it led to, when, by which process and why."""

    version: int
    step: str
    state: str
    at: str
    by: str
    why: str


class CiJobAnswer(AnswerBody, frozen=True):
    """The job that a runner executes for a CI with jobs of its own. `run` is the CI's number of the run."""

    repository: str
    run: str
    attempt: int
    name: str
    runner: str


class StoryAnswer(AnswerBody, frozen=True):
    """What is left of a record (`state` is null once it is purged) and its last steps, oldest first."""

    id: str
    state: str | None
    owes: DebtAnswer | None
    leaving_at: str | None
    job: CiJobAnswer | None
    story: list[StoryLineAnswer]


class StoryList(AnswerBody, frozen=True):
    """The stories of everything that `id` names: one record, or all that belong to a run."""

    id: str
    stories: list[StoryAnswer]


def story_of(story: Story) -> StoryAnswer:
    record = story.record
    return StoryAnswer(
        id=story.id,
        state=record.state.value if record else None,
        owes=debt_of(record.owes) if isinstance(record, Instance | Provision) else None,
        leaving_at=time_of(story.leaving),
        job=ci_job_of(story.activity),
        story=lines_of(story.lines),
    )


def lines_of(lines: Iterable[StoryLine]) -> list[StoryLineAnswer]:
    return [StoryLineAnswer(one.version, one.step, one.state, format_time(one.at), one.by, one.why) for one in lines]


def debt_of(debt: Debt | None) -> DebtAnswer | None:
    return DebtAnswer(DebtKind(debt.kind.value), format_time(debt.due_at)) if debt else None


def ci_job_of(activity: Activity | None) -> CiJobAnswer | None:
    return filled(CiJobAnswer, activity, name=activity.job) if activity else None
