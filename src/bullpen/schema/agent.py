"""What only agents are answered. They read these fields with the standard library, also those of an older release."""

from enum import StrEnum

from bullpen.schema.base import AnswerBody
from bullpen.schema.job import JobAnswer


class AgentRecord(AnswerBody, frozen=True):
    """An instance's record as its agent needs it. `found` is false while there is none; `threshold` is in seconds."""

    found: bool
    seen: str
    state: str = ""
    run_id: str = ""
    round: str = ""
    threshold: float = 0.0
    attested: bool = False
    trust_domain: str = ""
    has_job: bool = False
    signal_seq: int = 0
    repository: str = ""


class AgentToken(AnswerBody, frozen=True):
    token: str


class RegistrationAnswer(AnswerBody, frozen=True, omit_defaults=True):
    """Whether the record still asks for a registration, and what the agent needs for it; nothing, where it is done.
    `refusal` is why the CI gives nothing, for people. Never logged: `token`, `removal` and `jit` open the CI."""

    registered: bool
    runner: str = ""
    label: str = ""
    url: str = ""
    group: str = ""
    token: str = ""
    removal: str = ""
    jit: str = ""
    oldest: str = ""
    refusal: str = ""


class SignalStored(AnswerBody, frozen=True):
    stored: bool


class TakenJob(AnswerBody, frozen=True):
    job: JobAnswer | None


class AssignmentStanding(StrEnum):
    """Whether an assignment still holds."""

    HOLDS = ""
    CANCELLED = "cancelled"
    LOST = "lost"


class AssignmentAnswer(AnswerBody, frozen=True):
    standing: AssignmentStanding


class FinishedJob(AnswerBody, frozen=True):
    """`accepted` is false if the result came too late; `job` is what stands."""

    accepted: bool
    job: JobAnswer


class LogWritten(AnswerBody, frozen=True):
    length: int
