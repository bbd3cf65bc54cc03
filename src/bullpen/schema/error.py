"""What went wrong: one object, with the field by name; never a trace or a secret."""

import msgspec

from bullpen.errors import FailureCause
from bullpen.schema.base import AnswerBody, WorkState


class ErrorAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request that the server refused. `field` and `value` name the part of the request, `allowed` says what it may
    be. For a heartbeat, `error` is a code, with the `token` that the server has and the worker's `state`."""

    error: str
    field: str = ""
    value: str = ""
    allowed: str = ""
    remedy: str = ""
    token: int | None = None
    state: str = ""


class FailureAnswer(AnswerBody, frozen=True, omit_defaults=True):
    """A command that could not do its work. `state`, `reason` and `remedy` are as in the answer of one that could;
    `field` is the option that is wrong, if it is one."""

    state: WorkState
    cause: FailureCause
    reason: str
    remedy: str
    field: str = ""
