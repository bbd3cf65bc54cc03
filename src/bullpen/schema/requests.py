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
        Annotated[
            tuple[Annotated[str, Meta(max_length=limits.COMMAND_BYTES)], ...],
            Meta(min_length=1, max_length=limits.COMMAND_WORDS),
        ],
        Meta(description="Program and arguments."),
    ]
    name: Annotated[str, Meta(max_length=limits.JOB_NAME_LENGTH, description="Name of the job, for people.")] = ""
    index: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.JOB_INDEX,
            description="Place among the jobs of the run.",
        ),
    ] = 0
    timeout_seconds: Annotated[
        float, Meta(ge=0, le=limits.JOB_TIMEOUT[1], description="Seconds that the job may run; 0 for no limit.")
    ] = 0.0
    capability: Annotated[
        str,
        Meta(
            max_length=limits.CAPABILITY_LENGTH, description="Capability that its worker needs; empty for any worker."
        ),
    ] = ""
    side_effects: Annotated[
        bool,
        Meta(description="Whether it must never run twice at once: it waits until a lost machine is gone."),
    ] = False
    source: Annotated[str, Meta(max_length=64, description="Id of the files that the job works on.")] = ""
    artifacts: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.ARTIFACT_PATTERN_LENGTH)], ...],
        Meta(max_length=limits.ARTIFACT_PATTERNS, description="Patterns of files to keep when the job has ended."),
    ] = ()
    avoid: Annotated[
        str,
        Meta(
            max_length=limits.KEY_LENGTH,
            description="Key of a worker that does not get the job while another one of the run lives; empty for none.",
        ),
    ] = ""


class PostponeJob(RequestBody, frozen=True):
    seconds: Annotated[
        float,
        Meta(ge=0, le=limits.POSTPONE_SECONDS, description="Seconds that the job waits; 0: any runner may have it."),
    ]


class TakeJob(RequestBody, frozen=True):
    """`round` is that of the record which the agent acts on: it gets no job of a later owner."""

    worker_instance_key: Annotated[Key, Meta(description="Key of the worker.")]
    round: Annotated[Round, Meta(description="Round of the record that the agent acts on.")]


class BindJob(RequestBody, frozen=True):
    worker_instance_key: Annotated[Key, Meta(description="Key of the worker.")]
    epoch: Annotated[Whole, Meta(description="Epoch of the worker.")]
    fence: Annotated[Whole, Meta(description="Assignment of the job.")]


class GiveBackJob(BindJob, frozen=True):
    why: Annotated[str, Meta(max_length=limits.REASON_LENGTH, description="Why, for people.")] = ""


class FinishJob(BindJob, frozen=True):
    exit_code: Annotated[
        int,
        Meta(
            ge=limits.EXIT_CODES[0],
            le=limits.EXIT_CODES[1],
            description="Exit code of the command; negative for the signal that ended it.",
        ),
    ]
    result: Annotated[JobResult, Meta(description="How it ended; empty: by the exit code.")] = JobResult.NONE
    why: Annotated[str, Meta(max_length=limits.REASON_LENGTH, description="Why, for people.")] = ""


class ProvisionRun(RequestBody, frozen=True):
    count: Annotated[
        int, Meta(ge=1, le=limits.COUNT, description="Runners that the run needs. Those that it has already count.")
    ]
    resource_class: Annotated[
        str, Meta(max_length=limits.CLASS_NAME_LENGTH, description="Resource class of the runners.")
    ] = "small"
    usage_class: Annotated[UsageClass, Meta(description="How the machines are paid for.")] = UsageClass.ON_DEMAND
    allowed_instance_types: Annotated[
        Annotated[
            tuple[Annotated[str, Meta(pattern=limits.whole(limits.TYPE_PATTERN))], ...],
            Meta(min_length=1, max_length=limits.TYPE_PATTERNS),
        ],
        Meta(description="Types of machines that may be used; `*` stands for any characters."),
    ] = ("*",)
    cpu: Annotated[int, Meta(ge=0, le=limits.CPU, description="Processors that each runner has at least.")] = 0
    mem: Annotated[int, Meta(ge=0, le=limits.MEM, description="MiB of memory that each runner has at least.")] = 0
    max_runtime_min: Annotated[
        Annotated[int, Meta(ge=1, le=limits.RUNTIME_MINUTES)] | None,
        Meta(description="Minutes that the run may keep the runners; null for the server's default."),
    ] = None
    trust_domain: Annotated[
        Annotated[str, Meta(pattern=limits.whole(limits.TRUST_DOMAIN))] | None,
        Meta(description="Trust domain whose used machines the run may get; null for `default`."),
    ] = None
    allow_partial: Annotated[bool, Meta(description="Accept fewer runners, at least one.")] = False
    wait: Annotated[
        float,
        Meta(ge=0, le=limits.WAIT_SECONDS, description="Seconds to wait for room under a full cap; 0: fail at once."),
    ] = 0.0
    repository: Annotated[
        Annotated[str, Meta(pattern=limits.whole(f"({limits.REPOSITORY})?"))],
        Meta(description="Repository of the run; jobs of other repositories are refused. Empty for none."),
    ] = ""
    spares_silent: Annotated[
        bool,
        Meta(
            description="Leave runners of the run that are silent as they are: they may come back. Else they are ended."
        ),
    ] = False


class ReportSignal(RequestBody, frozen=True):
    kind: Annotated[SignalKind, Meta(description="What the agent reports.")]
    run_id: Annotated[
        str, Meta(max_length=limits.RUN_ID_LENGTH, description="Run that the signal is about; empty if none.")
    ]
    round: Annotated[Round, Meta(description="Round that the signal is about.")]
    seq: Annotated[int, Meta(ge=1, le=SEQ_MOST, description="Number of the signal; higher with each one.")]
    text: Annotated[
        str, Meta(max_length=limits.SIGNAL_TEXT_LENGTH, description="End of a log, if something failed.")
    ] = ""


class ProveInstance(RequestBody, frozen=True):
    """What a request to STS was signed with; the request itself is known to both sides, see `bullpen.model.proof`."""

    authorization: Annotated[
        str,
        Meta(max_length=limits.PROOF_HEADER_LENGTH, description="Authorization header of the signed request to STS."),
    ]
    date: Annotated[str, Meta(max_length=limits.PROOF_DATE_LENGTH, description="Date of the signed request.")]
    session_token: Annotated[
        str, Meta(max_length=limits.SESSION_TOKEN_LENGTH, description="Session token of the instance's role. A secret.")
    ]


class RegisterRunner(RequestBody, frozen=True):
    """`round` is that of the record which the agent acts on."""

    run_id: RunId
    round: Annotated[Round, Meta(description="Round of the record that the agent acts on.")]
    knows_sets: Annotated[
        bool, Meta(description="Whether the agent judges jobs by the rules of a scale set. Without it, it gets none.")
    ] = False
    refused_job: Annotated[
        str,
        Meta(
            max_length=limits.REASON_LENGTH,
            description="Job of a scale set that the agent has refused since its last request, and why; empty if none.",
        ),
    ] = ""


class ExchangeToken(RequestBody, frozen=True):
    """The OIDC token that a job got from GitHub, with Bullpen as its audience."""

    token: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=limits.OIDC_TOKEN_LENGTH,
            description="OIDC token of the job, with the audience `github.oidc-audience`. A secret.",
        ),
    ]
