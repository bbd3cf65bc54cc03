"""What became of a run's instances when it was released."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.schema.base import AnswerBody, WorkState, filled

if TYPE_CHECKING:
    from bullpen.release import ReleaseOutcome


class ReleaseAnswer(AnswerBody, frozen=True):
    """Ids: `offered` are on offer again, `terminated` ended, `pending` still cleaning, `busy` left to a CI job."""

    run_id: Annotated[str, Meta(description="Run that was released.")]
    state: Annotated[WorkState, Meta(description="Whether it succeeded.")]
    offered: Annotated[tuple[str, ...], Meta(description="Ids of instances that are on offer again.")]
    terminated: Annotated[tuple[str, ...], Meta(description="Ids of instances that were ended.")]
    pending: Annotated[tuple[str, ...], Meta(description="Ids of instances that still clean themselves.")]
    busy: Annotated[tuple[str, ...], Meta(description="Ids of instances that were left to a CI job.")]
    duration_seconds: Annotated[float, Meta(description="How long it took.")]


def release_of(released: "ReleaseOutcome") -> ReleaseAnswer:
    return filled(ReleaseAnswer, released, state=WorkState.SUCCEEDED, duration_seconds=round(released.duration, 3))
