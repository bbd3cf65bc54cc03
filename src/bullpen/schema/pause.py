"""What pause, resume, drain and rotate are asked, and what they answer."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.model import limits
from bullpen.model.pause import Pause
from bullpen.model.rotation import Rotation
from bullpen.schema.base import AnswerBody, RequestBody, Time, filled, time_of

if TYPE_CHECKING:
    from bullpen.operate import OperateOutcome

ClassOrPool = Annotated[
    str,
    Meta(
        max_length=limits.CLASS_NAME_LENGTH,
        pattern=limits.whole(f"({limits.CLASS_NAME})?"),
        description="Resource class; empty for the whole pool.",
    ),
]
DryRun = Annotated[bool, Meta(description="Change nothing; answer what would be done.")]


class PauseAnswer(AnswerBody, frozen=True):
    """A pause that is in force."""

    resource_class: Annotated[str, Meta(description="Resource class that is paused; empty for the whole pool.")]
    note: Annotated[str, Meta(description="Why, as the operator wrote.")]
    since: Annotated[Time | None, Meta(description="Since when it is paused.")]
    by: Annotated[str, Meta(description="Operator who paused it.")]
    drains: Annotated[bool, Meta(description="Whether every instance of it is drained, too.")] = False


class PauseList(AnswerBody, frozen=True):
    pauses: Annotated[list[PauseAnswer], Meta(description="Pauses in force; that of the whole pool first.")]


class RotationAnswer(AnswerBody, frozen=True):
    """A rotation that is under way."""

    resource_class: Annotated[str, Meta(description="Resource class whose instances are replaced.")]
    total: Annotated[int, Meta(description="Instances that are to be replaced.")]
    left: Annotated[int, Meta(description="Those of them that still live.")]
    since: Annotated[Time | None, Meta(description="Since when it is under way.")]
    by: Annotated[str, Meta(description="Operator who asked for it.")]


class OperatorAction(AnswerBody, frozen=True):
    """One thing that was done, or with `dryRun` would be done."""

    what: Annotated[str, Meta(description="What is done, such as `pause`, `drain` or `end`.")]
    subject: Annotated[str, Meta(description="Class or instance that it is done to.")]
    reason: Annotated[str, Meta(description="Why, and what follows.")]


class OperateAnswer(AnswerBody, frozen=True):
    """What an operator's command did. With `dryRun` it changed nothing: `actions` says what it would do."""

    dry_run: Annotated[bool, Meta(description="Whether nothing was changed.")]
    actions: Annotated[list[OperatorAction], Meta(description="What was done, or would be.")]
    pause: Annotated[PauseAnswer | None, Meta(description="Pause that is in force afterwards; null if none is.")] = None


class PausePool(RequestBody, frozen=True):
    note: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=limits.NOTE_LENGTH,
            description="Why, for everyone who meets the pause. One line.",
        ),
    ]
    resource_class: ClassOrPool = ""
    dry_run: DryRun = False


class ResumePool(RequestBody, frozen=True):
    resource_class: ClassOrPool = ""
    dry_run: DryRun = False


class DrainInstances(RequestBody, frozen=True):
    """Either instances or a class."""

    instances: Annotated[
        Annotated[
            tuple[Annotated[str, Meta(min_length=1, max_length=limits.KEY_LENGTH)], ...],
            Meta(max_length=limits.DRAINED_AT_ONCE),
        ],
        Meta(description="Ids of the instances."),
    ] = ()
    resource_class: Annotated[
        str,
        Meta(
            max_length=limits.CLASS_NAME_LENGTH,
            pattern=limits.whole(f"({limits.CLASS_NAME})?"),
            description="Resource class of which every instance is drained, and which is paused; empty for none.",
        ),
    ] = ""
    note: Annotated[str, Meta(max_length=limits.NOTE_LENGTH, description="Why, for people; empty for none.")] = ""
    dry_run: DryRun = False


class RotatePool(RequestBody, frozen=True):
    resource_class: ClassOrPool = ""
    dry_run: DryRun = False


def rotation_of(one: Rotation, left: int) -> RotationAnswer:
    return RotationAnswer(one.resource_class, len(one.members), left, time_of(one.since), one.operator)


def operate_of(outcome: "OperateOutcome") -> OperateAnswer:
    return OperateAnswer(
        outcome.dry_run,
        [filled(OperatorAction, one) for one in outcome.actions],
        pause_of(outcome.pause) if outcome.pause is not None else None,
    )


def pause_of(one: Pause) -> PauseAnswer:
    return filled(PauseAnswer, one, since=time_of(one.since), by=one.operator)


def pauses_of(pauses: Iterable[Pause]) -> list[PauseAnswer]:
    """Those in force; that of the whole pool first."""
    return [pause_of(one) for one in sorted(pauses, key=lambda one: one.resource_class) if one.is_on]
