"""What only agents are answered. They read these fields with the standard library, also those of an older release."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from bullpen.model.instance import State as InstanceState
from bullpen.model.scale_set import SetEvents
from bullpen.schema.base import AnswerBody
from bullpen.schema.job import JobAnswer

STATES = [one.value for one in InstanceState if one is not InstanceState.ABSENT]


class AgentRecord(AnswerBody, frozen=True):
    """An instance's record as its agent needs it. `found` is false while there is none; `threshold` is in seconds."""

    found: Annotated[bool, Meta(description="Whether there is a record of this instance.")]
    seen: Annotated[str, Meta(description="Send it with the next poll: the answer then waits for a change.")]
    state: Annotated[
        str,
        Meta(description="State of the instance; empty without a record.", extra_json_schema={"enum": ["", *STATES]}),
    ] = ""
    run_id: Annotated[str, Meta(description="Run that the instance serves; empty if none.")] = ""
    round: Annotated[str, Meta(description="Round of the instance, drawn again whenever its owner changes.")] = ""
    threshold: Annotated[float, Meta(description="Until when it may stay in its state, in seconds since 1970.")] = 0.0
    attested: Annotated[bool, Meta(description="Whether the instance has proven that it is clean.")] = False
    trust_domain: Annotated[str, Meta(description="Trust domain of the instance.")] = ""
    has_job: Annotated[bool, Meta(description="Whether a job of its run waits for a runner.")] = False
    signal_seq: Annotated[int, Meta(description="Number of the last signal that the server has.")] = 0
    repository: Annotated[str, Meta(description="Repository of the run; jobs of other repositories are refused.")] = ""


class AgentToken(AnswerBody, frozen=True):
    token: Annotated[str, Meta(description="Token of the instance, for its agent's requests. A secret.")]


class ServedRepository(AnswerBody, frozen=True, omit_defaults=True):
    name: Annotated[str, Meta(description="Owner and name of the repository.")]
    id: Annotated[int, Meta(description="The CI's id of the repository; 0 if it is not known yet.")] = 0


class ServedSetAnswer(AnswerBody, frozen=True, omit_defaults=True):
    """The scale set whose jobs a runner gets. The agent refuses all jobs but those of these repositories and events."""

    name: Annotated[str, Meta(description="Name of the scale set: what a workflow names in `runs-on`.")]
    events: Annotated[SetEvents, Meta(description="Events whose jobs the set serves.")]
    repositories: Annotated[
        tuple[ServedRepository, ...], Meta(description="Repositories that the set serves; empty for all.")
    ] = ()


class RegistrationAnswer(AnswerBody, frozen=True, omit_defaults=True):
    """Whether the record still asks for a registration, and what the agent needs for it; nothing, where it is done.
    `refusal` is why the CI gives nothing, for people. Never logged: `token`, `removal` and `jit` open the CI."""

    registered: Annotated[bool, Meta(description="Whether the runner is registered, or may register now.")]
    runner: Annotated[str, Meta(description="Name under which the CI knows the runner.")] = ""
    label: Annotated[str, Meta(description="Label that jobs ask for.")] = ""
    url: Annotated[str, Meta(description="Where to register: a repository or an organisation.")] = ""
    group: Annotated[str, Meta(description="Runner group; empty for the default one.")] = ""
    token: Annotated[str, Meta(description="Registers the runner. A secret.")] = ""
    removal: Annotated[str, Meta(description="Removes the runner again. A secret.")] = ""
    jit: Annotated[str, Meta(description="A registration that was made already, for one job. A secret.")] = ""
    oldest: Annotated[str, Meta(description="Oldest version of the runner that the CI accepts; empty if unknown.")] = ""
    id: Annotated[int, Meta(description="The CI's id of a registration that was made already; 0 if unknown.")] = 0
    serves: Annotated[
        ServedSetAnswer | None, Meta(description="The scale set whose jobs the runner gets; null if it serves a run.")
    ] = None
    refusal: Annotated[str, Meta(description="Why the CI gives nothing, for people.")] = ""


class SignalStored(AnswerBody, frozen=True):
    stored: Annotated[bool, Meta(description="False if a later signal is stored already.")]


class TakenJob(AnswerBody, frozen=True):
    job: Annotated[JobAnswer | None, Meta(description="The job to run; null if none waits.")]


class AssignmentStanding(StrEnum):
    """Whether an assignment still holds."""

    HOLDS = ""
    CANCELLED = "cancelled"
    LOST = "lost"


class AssignmentAnswer(AnswerBody, frozen=True):
    standing: Annotated[
        AssignmentStanding, Meta(description="Whether the assignment still holds: empty, `cancelled` or `lost`.")
    ]


class FinishedJob(AnswerBody, frozen=True):
    """`accepted` is false if the result came too late; `job` is what stands."""

    accepted: Annotated[bool, Meta(description="False if the result came too late.")]
    job: Annotated[JobAnswer, Meta(description="The job as it stands now.")]


class LogWritten(AnswerBody, frozen=True):
    length: Annotated[int, Meta(description="Bytes of the log that the server has.")]
