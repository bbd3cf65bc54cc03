"""What all bodies share."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from bullpen.model.ticket import format_time


class AnswerBody(Struct, frozen=True, rename="camel"):
    """What the command line prints with `--json`, or the server answers."""


class RequestBody(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a client sends. An unknown field is an error: it may be a misspelt one."""


class WorkState(StrEnum):
    """How a command or an operation ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


def time_of(at: datetime | None) -> str | None:
    return format_time(at) if at else None
