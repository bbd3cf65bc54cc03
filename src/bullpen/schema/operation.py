"""A provision or release that a client began over HTTP, and watches until it ends."""

from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from bullpen.errors import FailureCause
from bullpen.model.progress import WorkPhase
from bullpen.schema.base import AnswerBody, Time
from bullpen.schema.provision import ProvisionAnswer
from bullpen.schema.release import ReleaseAnswer


class OperationKind(StrEnum):
    PROVISION = "provision"
    RELEASE = "release"


class OperationState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"  # it was asked to stop, and has given everything back
    LOST = "lost"  # its process ended before it did; the run's records have the rest


class ProgressAnswer(AnswerBody, frozen=True):
    """How far an operation has come: `done` of `total`, and by phase how many places wait. `about` is what the phase
    concerns, such as the setting of a cap; `text` says it all for people."""

    phase: Annotated[WorkPhase, Meta(description="What the operation does now.")]
    text: Annotated[str, Meta(description="All of it as a sentence, for people.")]
    done: Annotated[int, Meta(description="How many runners are ready.")]
    total: Annotated[int, Meta(description="How many runners are wanted.")]
    waiting: Annotated[
        dict[WorkPhase, int], Meta(description="How many runners wait, by the phase that they wait for.")
    ]
    about: Annotated[str, Meta(description="What the phase concerns, such as the setting of a cap; empty if nothing.")]


class _Operation(Struct, rename="camel", tag_field="kind", kw_only=True):
    id: Annotated[str, Meta(description="Id of the operation.")]
    run_id: Annotated[str, Meta(description="Run that it is for.")]
    state: Annotated[OperationState, Meta(description="State of the operation.")]
    started_at: Annotated[Time, Meta(description="When it began.")]
    ends_by: Annotated[Time, Meta(description="Deadline of the operation.")]
    finished_at: Annotated[Time | None, Meta(description="When it ended; null until then.")] = None
    progress: Annotated[
        ProgressAnswer | None, Meta(description="How far it has come; null before the first report.")
    ] = None
    cause: Annotated[
        FailureCause, Meta(description="Why it failed or was cancelled, for programs; empty if it did not.")
    ] = FailureCause.NONE
    reason: Annotated[str, Meta(description="Why it failed or was cancelled, for people.")] = ""
    remedy: Annotated[str, Meta(description="What to do about it.")] = ""


class ProvisionOperation(_Operation, tag=OperationKind.PROVISION.value, kw_only=True):
    """`result` is what `bullpen provision --json` prints; null until the operation has ended, and if it failed before
    it began."""

    result: Annotated[
        ProvisionAnswer | None,
        Meta(description="What `bullpen provision --json` prints. Null until it has ended, and if it failed early."),
    ] = None


class ReleaseOperation(_Operation, tag=OperationKind.RELEASE.value, kw_only=True):
    """`result` is what `bullpen release --json` prints; null until the operation has ended, and if it failed."""

    result: Annotated[
        ReleaseAnswer | None,
        Meta(description="What `bullpen release --json` prints. Null until the operation has ended, and if it failed."),
    ] = None


Operation: TypeAlias = ProvisionOperation | ReleaseOperation


class OperationList(AnswerBody, frozen=True):
    """`next` is where the next page begins; empty at the end."""

    operations: Annotated[list[Operation], Meta(description="The operations of this page, by id.")]
    next: Annotated[str, Meta(description="`after` of the next page; empty at the end.")]
