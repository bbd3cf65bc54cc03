"""What the HTTP API is asked. Each request is checked by its type, and an unknown field is refused."""

from typing import Annotated

from msgspec import Meta

from bullpen.model import limits
from bullpen.model.job import Result as JobResult
from bullpen.model.signal import SEQ_MOST
from bullpen.model.signal import Kind as SignalKind
from bullpen.model.ticket import UsageClass
from bullpen.schema.base import RequestBody

RunId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.RUN_ID_LENGTH,
        pattern=r"^[^\s\x00-\x1f\x7f]+\Z",
        description="A run's id.",
    ),
]
Key = Annotated[str, Meta(min_length=1, max_length=limits.KEY_LENGTH)]
Round = Annotated[str, Meta(max_length=limits.ROUND_LENGTH, pattern=r"^[0-9A-Za-z-]*\Z")]
Whole = Annotated[int, Meta(ge=0, le=limits.NUMBER)]


class SubmitJob(RequestBody, frozen=True):
    run_id: RunId
    command: Annotated[
        tuple[Annotated[str, Meta(max_length=limits.COMMAND_BYTES)], ...],
        Meta(min_length=1, max_length=limits.COMMAND_WORDS),
    ]
    name: Annotated[str, Meta(max_length=limits.JOB_NAME_LENGTH)] = ""
    index: Annotated[int, Meta(ge=0, le=limits.JOB_INDEX)] = 0
    timeout_seconds: Annotated[float, Meta(ge=0, le=limits.JOB_TIMEOUT[1])] = 0.0
    capability: Annotated[str, Meta(max_length=limits.CAPABILITY_LENGTH)] = ""
    side_effects: bool = False
    source: Annotated[str, Meta(max_length=64, description="Id of the files that the job works on.")] = ""
    artifacts: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.ARTIFACT_PATTERN_LENGTH)], ...],
        Meta(max_length=limits.ARTIFACT_PATTERNS, description="Patterns of files to keep when the job has ended."),
    ] = ()


class TakeJob(RequestBody, frozen=True):
    """`round` is that of the record which the agent acts on: it gets no job of a later owner."""

    worker_instance_key: Key
    round: Round


class BindJob(RequestBody, frozen=True):
    worker_instance_key: Key
    epoch: Whole
    fence: Whole


class GiveBackJob(BindJob, frozen=True):
    why: Annotated[str, Meta(max_length=limits.REASON_LENGTH)] = ""


class FinishJob(BindJob, frozen=True):
    exit_code: Annotated[int, Meta(ge=limits.EXIT_CODES[0], le=limits.EXIT_CODES[1])]
    result: JobResult = JobResult.NONE
    why: Annotated[str, Meta(max_length=limits.REASON_LENGTH)] = ""


class ProvisionRun(RequestBody, frozen=True):
    count: Annotated[int, Meta(ge=1, le=limits.COUNT)]
    resource_class: Annotated[str, Meta(max_length=limits.CLASS_NAME_LENGTH)] = "small"
    usage_class: UsageClass = UsageClass.ON_DEMAND
    allowed_instance_types: Annotated[
        tuple[Annotated[str, Meta(pattern=limits.whole(limits.TYPE_PATTERN))], ...],
        Meta(min_length=1, max_length=limits.TYPE_PATTERNS),
    ] = ("*",)
    cpu: Annotated[int, Meta(ge=0, le=limits.CPU)] = 0
    mem: Annotated[int, Meta(ge=0, le=limits.MEM)] = 0
    max_runtime_min: Annotated[int, Meta(ge=1, le=limits.RUNTIME_MINUTES)] | None = None
    trust_domain: Annotated[str, Meta(pattern=limits.whole(limits.TRUST_DOMAIN))] | None = None
    allow_partial: bool = False
    wait: Annotated[
        float,
        Meta(ge=0, le=limits.WAIT_SECONDS, description="Seconds to wait for room under a full cap; 0: fail at once."),
    ] = 0.0
    repository: Annotated[str, Meta(pattern=limits.whole(f"({limits.REPOSITORY})?"))] = ""


class ReportSignal(RequestBody, frozen=True):
    kind: SignalKind
    run_id: Annotated[str, Meta(max_length=limits.RUN_ID_LENGTH)]
    round: Round
    seq: Annotated[int, Meta(ge=1, le=SEQ_MOST)]
    text: Annotated[str, Meta(max_length=limits.SIGNAL_TEXT_LENGTH)] = ""


class ProveInstance(RequestBody, frozen=True):
    """What a request to STS was signed with; the request itself is known to both sides, see `bullpen.model.proof`."""

    authorization: Annotated[str, Meta(max_length=limits.PROOF_HEADER_LENGTH)]
    date: Annotated[str, Meta(max_length=limits.PROOF_DATE_LENGTH)]
    session_token: Annotated[str, Meta(max_length=limits.SESSION_TOKEN_LENGTH)]


class RegisterRunner(RequestBody, frozen=True):
    """`round` is that of the record which the agent acts on."""

    run_id: RunId
    round: Round


class ExchangeToken(RequestBody, frozen=True):
    """The OIDC token that a job got from GitHub, with Bullpen as its audience."""

    token: Annotated[str, Meta(min_length=1, max_length=limits.OIDC_TOKEN_LENGTH)]
