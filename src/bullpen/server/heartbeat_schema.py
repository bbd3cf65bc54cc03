"""A heartbeat on the wire: what is read, and what is answered."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from bullpen.auth.tokens import AgentIdentity, Operator
from bullpen.errors import ConfigError
from bullpen.liveness.heartbeat import HeartbeatAnswer, Recorded
from bullpen.liveness.request import Binding, HeartbeatRequest
from bullpen.model.activity import LONGEST
from bullpen.model.worker import Card, Code
from bullpen.schema.base import AnswerBody, RequestBody
from bullpen.schema.error import ErrorAnswer
from bullpen.server.problems import Problem

Name = Annotated[str, Meta(max_length=128)]
FIELDS = {"key": "workerInstanceKey", "lease": "leaseSeconds", "request_id": "requestId", "bound": "boundActivities"}
FIELDS |= {"unbound": "unboundActivities", "running": "runningActivities", "card": "metadata"}
STATUS = {Code.MISMATCH: 409, Code.CLEANED_UP: 410, Code.RETIRED: 410, Code.UNKNOWN: 404}
REMEDY = {
    Code.MISMATCH: "Send the beat again with this token.",
    Code.CLEANED_UP: "Take a new key and begin with token 0.",
    Code.RETIRED: "Stop: its instance is being ended.",
    Code.UNKNOWN: "Take a new key and begin with token 0.",
}


class Activity(RequestBody, frozen=True):
    """A job, and the fence under which the worker has it."""

    job_id: Annotated[str, Meta(min_length=1, max_length=128)]
    fence: Annotated[int, Meta(ge=1, le=2**53)]


class Metadata(RequestBody, frozen=True):
    """What a worker says of itself. Sent with the first beat and when it changes."""

    capabilities: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...], Meta(max_length=64)] = ()
    build_id: Name = ""
    host: Name = ""
    pid: Annotated[int, Meta(ge=0, le=2**53)] = 0
    agent_version: Name = ""
    extras: Annotated[dict[Name, Annotated[str, Meta(max_length=1024)]], Meta(max_length=64)] = field(
        default_factory=dict
    )


class Heartbeat(RequestBody, frozen=True):
    """One beat. `token` is that of the last answer, 0 in the first beat of a key. Activities come as differences, but
    for `runningActivities`, which are asked about. A lease of 0 or none gets the default. `leavingAt` is when the
    worker's machine is to be taken away: it gets no new job. `activity` is the job that it runs for a CI with jobs of
    its own, said with every beat while it runs."""

    worker_instance_key: Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^\S+\Z")]
    token: Annotated[int, Meta(ge=0, le=2**53)] = 0
    lease_seconds: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    request_id: Name = ""
    domain: Name = ""
    metadata: Metadata | None = None
    bound_activities: Annotated[tuple[Activity, ...], Meta(max_length=1000)] = ()
    unbound_activities: Annotated[tuple[Activity, ...], Meta(max_length=1000)] = ()
    running_activities: Annotated[tuple[Activity, ...], Meta(max_length=1000)] = ()
    leaving_at: Annotated[datetime, Meta(tz=True)] | None = None
    activity: Annotated[str, Meta(max_length=LONGEST)] = ""


class Beaten(AnswerBody, frozen=True):
    """The beat counts. `stop` are jobs to end; another `epoch` than before says that the worker had been given up."""

    token: int
    epoch: int
    granted_lease_seconds: float
    next_in_seconds: float
    stop: tuple[str, ...]
    state: str
    resurrected: bool


class BatchAnswer(Struct, frozen=True):
    """One result for each beat, in order: the answer, or what was wrong with it."""

    results: list[Any]


def request_of(beat: Heartbeat, speaker: Operator | AgentIdentity) -> HeartbeatRequest:
    """What a beat asks for. An agent's `domain` is ignored: a lie would make a whole domain look silent."""
    if isinstance(speaker, AgentIdentity):
        instance_id, domain = speaker.instance_id, ""
    else:
        head, slash, _ = beat.worker_instance_key.partition("/")
        instance_id, domain = head if slash and head.startswith("i-") else "", beat.domain
    return HeartbeatRequest(
        key=beat.worker_instance_key,
        token=beat.token,
        lease=beat.lease_seconds,
        request_id=beat.request_id,
        instance_id=instance_id,
        domain=domain,
        bound=_bindings(beat.bound_activities),
        unbound=_bindings(beat.unbound_activities),
        running=_bindings(beat.running_activities),
        card=_card(beat.metadata) if beat.metadata is not None else None,
        leaving=beat.leaving_at,
        activity=beat.activity,
    )


def answer_of(recorded: Recorded | ConfigError) -> Beaten | Problem:
    if isinstance(recorded, HeartbeatAnswer):
        return Beaten(
            recorded.token,
            recorded.epoch,
            recorded.granted_lease,
            recorded.next_in,
            recorded.stop,
            recorded.state,
            recorded.resurrected,
        )
    if isinstance(recorded, ConfigError):
        name, _, rest = str(recorded).partition(":")
        named = FIELDS.get(name.partition("[")[0].partition(".")[0], name)
        return Problem(400, ErrorAnswer(f"{named}:{rest}", field=named))
    code = Code(recorded.code)
    answer = ErrorAnswer(code.value, remedy=REMEDY[code], token=recorded.token, state=recorded.state.value)
    return Problem(STATUS[code], answer)


def _bindings(activities: tuple[Activity, ...]) -> tuple[Binding, ...]:
    return tuple([Binding(one.job_id, one.fence) for one in activities]) if activities else ()


def _card(said: Metadata) -> Card:
    return Card(
        said.capabilities, said.build_id, said.host, said.pid, said.agent_version, tuple(sorted(said.extras.items()))
    )
