"""A provision or release that a client began over HTTP, and watches until it ends."""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from bullpen.errors import FailureCause
from bullpen.model.progress import WorkPhase
from bullpen.schema.base import AnswerBody
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

    phase: WorkPhase
    text: str
    done: int
    total: int
    waiting: dict[WorkPhase, int]
    about: str


class _Operation(Struct, rename="camel", tag_field="kind", kw_only=True):
    id: str
    run_id: str
    state: OperationState
    started_at: str
    ends_by: str
    finished_at: str | None = None
    progress: ProgressAnswer | None = None
    cause: FailureCause = FailureCause.NONE
    reason: str = ""
    remedy: str = ""


class ProvisionOperation(_Operation, tag=OperationKind.PROVISION.value, kw_only=True):
    """`result` is what `bullpen provision --json` prints; null until the operation has ended, and if it failed before
    it began."""

    result: ProvisionAnswer | None = None


class ReleaseOperation(_Operation, tag=OperationKind.RELEASE.value, kw_only=True):
    """`result` is what `bullpen release --json` prints; null until the operation has ended, and if it failed."""

    result: ReleaseAnswer | None = None


Operation: TypeAlias = ProvisionOperation | ReleaseOperation


class OperationList(AnswerBody, frozen=True):
    """`next` is where the next page begins; empty at the end."""

    operations: list[Operation]
    next: str
