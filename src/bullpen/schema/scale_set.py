"""A runner scale set: which process listens to it, its jobs and its runners."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.model.scale_set import State as SetState
from bullpen.schema.base import AnswerBody, Time, filled

if TYPE_CHECKING:
    from bullpen.inventory.sets import SetView


class ScaleSetAnswer(AnswerBody, frozen=True):
    """`assigned` and `running` are GitHub's numbers of jobs, as the process that listens heard them last; null while no
    process listens. `busy`, `idle`, `starting` and `cleaning` count the pool's own runners for the set."""

    name: Annotated[str, Meta(description="Name that workflows write in `runs-on`.")]
    state: Annotated[SetState, Meta(description="State of the set; `absent` if it was not created yet.")]
    resource_class: Annotated[str, Meta(description="Resource class of its runners.")]
    min: Annotated[int, Meta(description="Runners that wait registered.")]
    max: Annotated[int, Meta(description="Largest number of its runners.")]
    holder: Annotated[str, Meta(description="Process that listens to it; empty if none does.")]
    since: Annotated[Time | None, Meta(description="Since when it listens, or since when none does; null if unknown.")]
    heard_at: Annotated[Time | None, Meta(description="When GitHub last told of its jobs; null if it never did.")]
    assigned: Annotated[int | None, Meta(description="Jobs that wait or run; null if that is not known.")]
    running: Annotated[int | None, Meta(description="Jobs that run; null if that is not known.")]
    busy: Annotated[int, Meta(description="Runners that execute a job.")]
    idle: Annotated[int, Meta(description="Runners that are registered and wait for a job.")]
    starting: Annotated[int, Meta(description="Runners that are not registered yet.")]
    cleaning: Annotated[int, Meta(description="Runners between two jobs, and silent ones.")]
    waiting: Annotated[int, Meta(description="Jobs that have waited for some seconds; at most 50 are counted.")]
    waits_since: Annotated[
        Time | None,
        Meta(
            description="When the oldest waiting job began to wait. Jobs that GitHub took back count only if no other"
            " job waits. Null if none waits."
        ),
    ]
    why: Annotated[str, Meta(description="Why it waits, or why no process listens; empty if all is well.")]
    dropped: Annotated[int, Meta(description="Times since `since` that GitHub dropped an idle runner.")] = 0


def scale_set_of(view: "SetView") -> ScaleSetAnswer:
    jobs = view.jobs
    return filled(
        ScaleSetAnswer, view, assigned=jobs.assigned if jobs else None, running=jobs.running if jobs else None
    )
