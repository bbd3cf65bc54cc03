"""A heartbeat as a worker sends it and as it is answered: the same structs over HTTP and within this process.

Decoding a request validates it: types and lengths by their annotations, characters when a struct is made. A struct that
was made by hand is validated by `validated`. Errors name the field as it is spelled in JSON.
"""

import re
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from bullpen.errors import ConfigError
from bullpen.model import limits
from bullpen.model.activity import LONGEST as LONGEST_ACTIVITY
from bullpen.model.worker import Card, State

LONGEST_NAME = 128  # of a key, an instance, a domain, a job, a build; and of a capability that is accepted
LONGEST_VALUE = 1024  # of one extra
MOST_JOBS = 1000  # named in one list of one beat; more come with the next
MOST_EXTRAS = 64
SHOWN = 60  # characters of a wrong value

Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
Word = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Count = Annotated[int, Meta(ge=0, le=limits.NUMBER)]


WORD = "be printable characters without spaces"


class BadText(ConfigError, ValueError):
    """A text is not allowed. As a ValueError it gets its path where msgspec decodes."""

    def __init__(self, field: str, text: str, allowed: str) -> None:
        self.mistake = f"{_shown(text)} must {allowed}"
        super().__init__(f"{field}: {self.mistake}", field=field)


class Binding(Struct, frozen=True, gc=False, forbid_unknown_fields=True, rename={"job_id": "jobId"}):
    """A job, and the fence under which the worker has it: another assignment of the same job is another binding."""

    job_id: Annotated[Word, Meta(description="Id of the job.")]
    fence: Annotated[int, Meta(ge=1, le=limits.NUMBER, description="Assignment of the job that the worker has.")]

    def __post_init__(self) -> None:
        _check_word("jobId", self.job_id)


class WorkerMetadata(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What a worker reports about itself. Sent with the first beat and when it changes."""

    capabilities: Annotated[
        tuple[Word, ...],
        Meta(
            max_length=limits.CAPABILITIES,
            description="Capabilities that jobs may ask for, of 1 to"
            f" {limits.CAPABILITY_LENGTH} characters; a longer one is ignored.",
        ),
    ] = ()
    build_id: Annotated[Name, Meta(description="Build of the worker.")] = ""
    host: Annotated[Name, Meta(description="Host of the worker.")] = ""
    pid: Annotated[Count, Meta(description="Process id of the worker.")] = 0
    agent_version: Annotated[Name, Meta(description="Version of the worker.")] = ""
    extras: Annotated[
        Annotated[dict[Name, Annotated[str, Meta(max_length=LONGEST_VALUE)]], Meta(max_length=MOST_EXTRAS)],
        Meta(description="Anything else, by name."),
    ] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for capability in self.capabilities:
            _check_word("capabilities", capability)
        for field, text in (("buildId", self.build_id), ("host", self.host), ("agentVersion", self.agent_version)):
            _check_text(field, text)
        for name, value in self.extras.items():
            if not name:
                raise BadText("extras", name, WORD)
            _check_word("extras", name)
            _check_text("extras", value)

    @property
    def card(self) -> Card:
        # No job can ask for a longer one. It is not refused: an agent of an earlier version, whose settings were not
        # checked, would lose its lease.
        usable = tuple(one for one in self.capabilities if len(one) <= limits.CAPABILITY_LENGTH)
        extras = tuple(sorted(self.extras.items()))
        return Card(usable, self.build_id, self.host, self.pid, self.agent_version, extras)


class HeartbeatRequest(
    Struct,
    frozen=True,
    kw_only=True,
    gc=False,  # holds no cycle, and there are thousands a second
    forbid_unknown_fields=True,
    rename={
        "key": "workerInstanceKey",
        "lease": "leaseSeconds",
        "request_id": "requestId",
        "bound": "boundActivities",
        "unbound": "unboundActivities",
        "running": "runningActivities",
        "leaving": "leavingAt",
    },
):
    """One beat. `token` is that of the last answer, 0 in the first beat of a key. Without a lease, or with 0, it gets
    the default.

    Jobs come as differences: `boundActivities` since the last accepted beat, `unboundActivities` once they are over
    and their result is recorded. `runningActivities` are those that the worker asks about: the answer names the ones to
    stop. Without any of them a beat reads nothing. A `requestId` that is drawn once and kept over the retries of a beat
    makes these harmless. `leavingAt` is when the worker's machine is to be taken away: it gets no new job. `activity`
    is the job that it runs for a CI with jobs of its own, sent with every beat while it runs.
    """

    key: Annotated[Word, Meta(description="Key of the worker, new for each process.")]
    token: Annotated[Count, Meta(description="Token of the last answer; 0 in the first beat of a key.")] = 0
    lease: Annotated[Count | None, Meta(description="Seconds of the lease to ask for; null or 0 for the default.")] = (
        None
    )
    request_id: Annotated[
        Name, Meta(description="Drawn once for a beat and kept over its retries: it then counts once.")
    ] = ""
    domain: Annotated[Name, Meta(description="Failure domain; the server knows it for agents.")] = ""
    metadata: Annotated[
        WorkerMetadata | None,
        Meta(description="What the worker reports about itself; with the first beat, and when it changes."),
    ] = None
    bound: Annotated[
        tuple[Binding, ...], Meta(max_length=MOST_JOBS, description="Jobs that it began since the last accepted beat.")
    ] = ()
    unbound: Annotated[
        tuple[Binding, ...], Meta(max_length=MOST_JOBS, description="Jobs that are over, and whose result is recorded.")
    ] = ()
    running: Annotated[
        tuple[Binding, ...],
        Meta(max_length=MOST_JOBS, description="Jobs that it asks about: the answer names those to stop."),
    ] = ()
    leaving: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="When its machine is going to be taken away: it gets no new job."),
    ] = None
    activity: Annotated[
        str,
        Meta(
            max_length=LONGEST_ACTIVITY,
            description="Job that it runs for a CI with jobs of its own, in every beat while it runs.",
        ),
    ] = ""

    def __post_init__(self) -> None:
        # All at once: in nearly every beat nothing is wrong.
        words = f"{self.key}{self.request_id}{self.domain}"
        if words.startswith(limits.RESERVED):
            raise BadText("workerInstanceKey", self.key, limits.NOT_RESERVED)
        if words.isprintable() and " " not in words and (not self.activity or str(self.activity).isprintable()):
            return
        _check_word("workerInstanceKey", self.key)
        _check_word("requestId", self.request_id)
        _check_word("domain", self.domain)
        _check_text("activity", self.activity)


class HeartbeatAnswer(
    Struct,
    frozen=True,
    gc=False,
    rename={"granted_lease": "grantedLeaseSeconds", "next_in": "nextInSeconds"},
):
    """The beat counts. If `epoch` differs from the previous answer's, the worker had been declared lost, as
    `resurrected` says.

    `stop` are jobs that it must end: cancelled ones, and those that are no longer, or never were, its own.
    """

    token: Annotated[int, Meta(description="Token for the next beat.")]
    epoch: Annotated[
        int,
        Meta(
            description="Epoch of the worker. If it differs from the previous answer's, the worker had been declared"
            " lost."
        ),
    ]
    granted_lease: Annotated[float, Meta(description="Seconds for which the lease holds.")]
    next_in: Annotated[float, Meta(description="Seconds after which the next beat is due.")]
    stop: Annotated[tuple[str, ...], Meta(description="Ids of jobs that the worker must end.")]
    state: Annotated[State, Meta(description="State of the worker.")]
    resurrected: Annotated[bool, Meta(description="Whether the worker had been declared lost.")]


def validated(request: HeartbeatRequest) -> HeartbeatRequest:
    """A request that was made by hand, as one that was decoded. Raise ConfigError, naming the field, its value and what
    is allowed."""
    fields = msgspec.to_builtins(request)
    try:
        return msgspec.convert(fields, HeartbeatRequest)
    except msgspec.ValidationError as exc:
        field, text = located(exc)
        value = "" if isinstance(exc.__cause__, BadText) else f", got {_shown(_value_at(fields, field))}"
        raise ConfigError(f"{field or 'heartbeat'}: {text}{value}", field=field) from exc


def located(error: msgspec.ValidationError) -> tuple[str, str]:
    """The field that an error of msgspec is about, as a path in JSON, and what is wrong with it. The path is empty for
    the whole body."""
    text, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    if isinstance(error.__cause__, BadText):
        return f"{field}.{error.__cause__.field}".removeprefix("."), error.__cause__.mistake
    if not field and "`" in text and "field" in text:  # one that is missing or unknown
        field = text.rpartition(" `")[2].rstrip("`")
    return field, f"{text[:1].lower()}{text[1:]}".replace("`", "'")


def _value_at(fields: Any, path: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(fields, list | tuple):
            fields = fields[int(step)] if step.isdigit() else fields
        elif isinstance(fields, dict):
            fields = fields.get(step)
    return fields


def _check_word(field: str, text: str) -> None:
    if not str(text).isprintable() or " " in str(text):  # no other space is printable
        raise BadText(field, text, WORD)


def _check_text(field: str, text: str) -> None:
    if not str(text).isprintable():
        raise BadText(field, text, "be printable characters")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
