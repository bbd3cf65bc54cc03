"""What went wrong: one object, with the field by name; never a trace or a secret."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from bullpen.errors import FailureCause
from bullpen.model.worker import State as WorkerState
from bullpen.schema.base import AnswerBody, WorkState


class ErrorCode(StrEnum):
    """Why a request was refused, for programs. A code never changes its meaning; new ones may come."""

    INVALID_REQUEST = "invalid-request"  # 400, 408, 415
    UNAUTHENTICATED = "unauthenticated"  # 401
    FORBIDDEN = "forbidden"  # 403
    NOT_FOUND = "not-found"  # 404
    NO_SUCH_ENDPOINT = "no-such-endpoint"  # 404: nothing is served at the path
    METHOD_NOT_ALLOWED = "method-not-allowed"  # 405
    CONFLICT = "conflict"  # 409
    GONE = "gone"  # 410
    TOO_LARGE = "too-large"  # 413, 431
    IDEMPOTENCY_MISMATCH = "idempotency-mismatch"  # 422
    TOO_BUSY = "too-busy"  # 429
    UNAVAILABLE = "unavailable"  # 503
    INTERNAL = "internal"  # 500


class ErrorAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request that the server refused. `field` and `value` name the part of the request, `allowed` says what it may
    be. For a heartbeat, `error` is a code, with the `token` that the server has and the worker's `state`."""

    code: Annotated[ErrorCode, Meta(description="Kind of the error, for programs. It never changes its meaning.")]
    error: Annotated[
        str,
        Meta(description="What is wrong, as a sentence; for a heartbeat a code such as `token-mismatch`."),
    ]
    field: Annotated[
        str,
        Meta(description="Part of the request that is wrong: a field of the body as a path, a parameter or a header."),
    ] = ""
    value: Annotated[str, Meta(description="Value that was sent there, shortened.")] = ""
    allowed: Annotated[str, Meta(description="What the value may be.")] = ""
    remedy: Annotated[str, Meta(description="What to do about it.")] = ""
    token: Annotated[int | None, Meta(description="For a heartbeat: the token that the server has.")] = None
    state: Annotated[WorkerState | None, Meta(description="For a heartbeat: the state of the worker.")] = None


class FailureAnswer(AnswerBody, frozen=True, omit_defaults=True):
    """A command that could not do its work. `state`, `reason` and `remedy` are as in the answer of one that could;
    `field` is the option that is wrong, if it is one."""

    state: WorkState
    cause: FailureCause
    reason: str
    remedy: str
    field: str = ""
