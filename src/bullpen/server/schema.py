"""What goes over the wire: every request is checked by its type, and a field that nobody knows is refused."""

from typing import Annotated

from msgspec import Meta, Struct

from bullpen.config import DOMAIN
from bullpen.model.signal import SEQ_MOST
from bullpen.model.times import LONGEST_WAIT
from bullpen.settings.github import REPOSITORY

RunId = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\s\x00-\x1f\x7f]+\Z", description="A run's id.")]
Word = Annotated[str, Meta(max_length=128)]
Round = Annotated[str, Meta(max_length=64, pattern=r"^[0-9A-Za-z-]*\Z")]
Whole = Annotated[int, Meta(ge=0, le=2**53)]


class Asked(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A request's body."""


class Answer(Struct, frozen=True, rename="camel"):
    """An answer's body."""


class SubmitJob(Asked, frozen=True):
    run_id: RunId
    command: Annotated[tuple[Annotated[str, Meta(max_length=32768)], ...], Meta(min_length=1, max_length=256)]
    name: Word = ""
    index: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    timeout_seconds: Annotated[float, Meta(ge=0, le=432_000)] = 0.0
    capability: Annotated[str, Meta(max_length=63)] = ""
    side_effects: bool = False


class TakeJob(Asked, frozen=True):
    """`round` is that of the record which the agent acts on: it gets no job of a later owner."""

    worker_instance_key: Annotated[str, Meta(min_length=1, max_length=128)]
    round: Round


class BindJob(Asked, frozen=True):
    worker_instance_key: Annotated[str, Meta(min_length=1, max_length=128)]
    epoch: Whole
    fence: Whole


class GiveBackJob(BindJob, frozen=True):
    why: Annotated[str, Meta(max_length=2000)] = ""


class FinishJob(Asked, frozen=True):
    worker_instance_key: Annotated[str, Meta(min_length=1, max_length=128)]
    epoch: Whole
    fence: Whole
    exit_code: Annotated[int, Meta(ge=-255, le=2**31)]
    result: Annotated[str, Meta(pattern=r"^(|succeeded|failed|cancelled|timed-out)\Z")] = ""
    why: Annotated[str, Meta(max_length=2000)] = ""


class ProvisionRun(Asked, frozen=True):
    count: Annotated[int, Meta(ge=1, le=1000)]
    resource_class: Annotated[str, Meta(max_length=63)] = "small"
    usage_class: Annotated[str, Meta(pattern=r"^(on-demand|spot)\Z")] = "on-demand"
    allowed_instance_types: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=30, pattern=r"^[A-Za-z0-9.*_-]+\Z")], ...],
        Meta(min_length=1, max_length=400),
    ] = ("*",)
    cpu: Annotated[int, Meta(ge=0, le=1024)] = 0
    mem: Annotated[int, Meta(ge=0, le=32 * 1024 * 1024)] = 0
    max_runtime_min: Annotated[int, Meta(ge=1, le=7 * 24 * 60)] | None = None
    trust_domain: Annotated[str, Meta(pattern=DOMAIN)] | None = None
    allow_partial: bool = False
    wait: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for room under a full cap; 0: fail at once.")
    ] = 0.0
    repository: Annotated[str, Meta(pattern=rf"^({REPOSITORY})?\Z")] = ""


class ReportSignal(Asked, frozen=True):
    kind: Annotated[
        str, Meta(pattern=r"^UD_(OK|FAILED|CLAIM_SEEN|(REG|REMOVE_REG|CLEAN)_(OK|FAILED))\Z", max_length=32)
    ]
    run_id: Annotated[str, Meta(max_length=128)]
    round: Round
    seq: Annotated[int, Meta(ge=1, le=SEQ_MOST)]
    text: Annotated[str, Meta(max_length=8000)] = ""


class ProveInstance(Asked, frozen=True):
    """What a request to STS was signed with; the request itself is known to both sides, see `bullpen.model.proof`."""

    authorization: Annotated[str, Meta(max_length=512)]
    date: Annotated[str, Meta(max_length=16)]
    session_token: Annotated[str, Meta(max_length=4096)]


class Register(Asked, frozen=True):
    run_id: RunId
    round: Round


class JobAnswer(Answer, frozen=True):
    id: str
    run_id: str
    name: str
    index: int
    command: tuple[str, ...]
    state: str
    result: str
    exit_code: int | None
    reason: str
    fence: int
    worker: str
    epoch: int
    instance_id: str
    losses: int
    cancelling: bool
    timeout_seconds: float
    capability: str
    side_effects: bool
    queued_at: str | None
    finished_at: str | None
    story: list["StoryLineAnswer"] = []


class StoryLineAnswer(Answer, frozen=True):
    version: int
    step: str
    state: str
    at: str
    by: str
    why: str


class InstanceAnswer(Answer, frozen=True):
    id: str
    state: str
    run_id: str
    round: str
    version: int
    threshold: str
    attested: bool
    trust_domain: str
    resource_class: str
    instance_type: str
    usage_class: str
    cpu: int
    mem: int
    provision_id: str
    repository: str
    signal: str | None = None
    heartbeat_at: str | None = None
    story: list[StoryLineAnswer] = []


class WorkerAnswer(Answer, frozen=True):
    key: str
    state: str
    instance_id: str
    domain: str
    epoch: int
    token: int
    lease_seconds: float
    deadline: str | None
    cleanup_at: str | None
    beat_at: str | None
    owes_reschedule: bool
    capabilities: tuple[str, ...] = ()
    build_id: str = ""
    host: str = ""
    pid: int = 0
    agent_version: str = ""
    extras: dict[str, str] = {}
    leaving_at: str | None = None
    story: list[StoryLineAnswer] = []


class StoppedAnswer(Answer, frozen=True):
    """The worker is cleaned up; `given_back` are its jobs that others may take now."""

    key: str
    state: str
    given_back: list[str]


class JobList(Answer, frozen=True):
    jobs: list[JobAnswer]


class InstanceList(Answer, frozen=True):
    """`next` is where the next page begins; empty at the end."""

    instances: list[InstanceAnswer]
    next: str


class WorkerList(Answer, frozen=True):
    workers: list[WorkerAnswer]
    next: str


class RunAnswer(Answer, frozen=True):
    run_id: str
    instances: list[InstanceAnswer]
    jobs: list[JobAnswer]


class PoolAnswer(Answer, frozen=True):
    """`tickets` includes expired ones where SQS holds them: it counts a message until it is received."""

    resource_class: str
    tickets: int
    claimable: int


class DomainAnswer(Answer, frozen=True):
    """Workers of what fails together, by state, and whether losses are held back there."""

    domain: str
    active: int
    inactive: int


class ControlAnswer(Answer, frozen=True):
    name: str
    state: str
    why: str
    held_since: str | None
    recovered_at: str | None


class SettingsAnswer(Answer, frozen=True):
    """`restart_needed` are settings that changed in the file and stay as they were until the process is restarted;
    `refused` is what is wrong with the file as it stands, so that nothing of it was taken over."""

    file: str = ""
    restart_needed: tuple[str, ...] = ()
    refused: str = ""


class StatusAnswer(Answer, frozen=True):
    instances: dict[str, dict[str, int]]
    pools: list[PoolAnswer]
    workers: list[DomainAnswer]
    controls: list[ControlAnswer]
    loops: dict[str, bool]
    failing: list["FailingAnswer"] = []
    settings: SettingsAnswer = SettingsAnswer()


class RecordAnswer(Answer, frozen=True):
    """An instance's record as its agent needs it. `found` is false while there is none; `threshold` in seconds."""

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


class AgentToken(Answer, frozen=True):
    token: str


class Registered(Answer, frozen=True, omit_defaults=True):
    """Whether the record still asks for it, and what the agent needs to do it itself; nothing, where it is done.
    `refusal` is why the CI gives nothing, for people. Never logged: the three secrets open the CI."""

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


class Stored(Answer, frozen=True):
    stored: bool


class TakenJob(Answer, frozen=True):
    job: JobAnswer | None


class Standing(Answer, frozen=True):
    """Whether an assignment still holds: nothing, `cancelled`, or `lost`."""

    standing: str


class FinishedJob(Answer, frozen=True):
    """`accepted` is false if the result came too late; `job` is what stands."""

    accepted: bool
    job: JobAnswer


class LogWritten(Answer, frozen=True):
    length: int


class Ready(Answer, frozen=True):
    """`failing` has the loops of which every run has failed since a time. They do not make a service unready. Why they
    fail is in `/v1/status`, which asks for a token."""

    ready: bool
    store: bool
    loops: dict[str, bool]
    failing: dict[str, str] = {}


class FailingAnswer(Answer, frozen=True):
    """A loop of a service on this store of which every run has failed since a time, and the last error."""

    process: str
    loop: str
    since: str
    error: str


class Alive(Answer, frozen=True):
    alive: bool
