"""What happens in the pool, as `GET /v1/events` streams it: the event's kind, and one of these as its data.

instance    InstanceAnswer         operation    Operation
job         JobAnswer              gone         GoneEvent
workers     WorkersEvent           trouble      TroubleEvent
"""

from enum import StrEnum

from bullpen.schema.base import AnswerBody
from bullpen.schema.status import DomainAnswer


class EventKind(StrEnum):
    INSTANCE = "instance"
    JOB = "job"
    WORKERS = "workers"
    OPERATION = "operation"
    GONE = "gone"
    TROUBLE = "trouble"


class WorkersEvent(AnswerBody, frozen=True):
    """The number of workers by failure domain has changed."""

    workers: list[DomainAnswer]


class GoneEvent(AnswerBody, frozen=True):
    """What was shown before is not listed any more."""

    kind: EventKind
    id: str


class TroubleEvent(AnswerBody, frozen=True):
    """The store could not be read; the stream goes on."""

    reason: str
