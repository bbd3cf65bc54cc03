"""What became of a run's instances when it was released."""

from bullpen.release import ReleaseOutcome
from bullpen.schema.base import AnswerBody, WorkState, filled


class ReleaseAnswer(AnswerBody, frozen=True):
    """Ids: `offered` are on offer again, `terminated` ended, `pending` still cleaning, `busy` left to a CI job."""

    run_id: str
    state: WorkState
    offered: tuple[str, ...]
    terminated: tuple[str, ...]
    pending: tuple[str, ...]
    busy: tuple[str, ...]
    duration_seconds: float


def release_of(released: ReleaseOutcome) -> ReleaseAnswer:
    return filled(ReleaseAnswer, released, state=WorkState.SUCCEEDED, duration_seconds=round(released.duration, 3))
