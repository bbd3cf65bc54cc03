"""What happens in the pool, as `GET /v1/events` streams it: the event's kind, and one of these as its data.

instance    InstanceAnswer         operation    Operation
job         JobAnswer              gone         GoneEvent
workers     WorkersEvent           trouble      TroubleEvent
silent      SilentEvent            ready        ReadyEvent
leases      LeasesEvent            pauses       PausesEvent
"""

from enum import StrEnum

from bullpen.schema.base import AnswerBody, Time
from bullpen.schema.pause import PauseAnswer
from bullpen.schema.status import DomainAnswer
from bullpen.schema.worker import SilentWorker


class EventKind(StrEnum):
    INSTANCE = "instance"
    JOB = "job"
    WORKERS = "workers"
    OPERATION = "operation"
    GONE = "gone"
    TROUBLE = "trouble"
    SILENT = "silent"
    LEASES = "leases"
    PAUSES = "pauses"
    READY = "ready"


class WorkersEvent(AnswerBody, frozen=True):
    """The number of workers by failure domain has changed."""

    workers: list[DomainAnswer]


class SilentEvent(AnswerBody, frozen=True):
    """The workers that missed their lease have changed: all that are suspect or lost now, as in the status."""

    workers: list[SilentWorker]


class PausesEvent(AnswerBody, frozen=True):
    """The pauses have changed: all that are in force now."""

    pauses: list[PauseAnswer]


class LeaseAnswer(AnswerBody, frozen=True):
    """The lease of an instance's worker: until when it holds, for how long it was granted, and when it last beat."""

    instance_id: str
    deadline: Time
    lease_seconds: float
    heartbeat_at: Time


class LeasesEvent(AnswerBody, frozen=True):
    """Leases that were renewed since the last such event, which comes once a second at most. Of more than 10,000
    workers, some."""

    leases: list[LeaseAnswer]


class ReadyEvent(AnswerBody, frozen=True):
    """Everything that there is has been told: what a client knew before, and was not named since the stream began, is
    gone. Also sent when the store can be read again after trouble. With how many instances and jobs there are."""

    instances: int
    jobs: int


class GoneEvent(AnswerBody, frozen=True):
    """What was shown before is not listed any more."""

    kind: EventKind
    id: str


class TroubleEvent(AnswerBody, frozen=True):
    """The store could not be read; the stream goes on."""

    reason: str
