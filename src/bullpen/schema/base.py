"""What all bodies share."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeAlias, TypeVar

from msgspec import Meta, Struct

from bullpen.model.ticket import format_time

Time: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time of an answer: UTC, in whole seconds."""


class AnswerBody(Struct, frozen=True, rename="camel"):
    """What the command line prints with `--json`, or the server answers."""


class RequestBody(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """What a client sends. An unknown field is an error: it may be a misspelt one. So a field with its default is not
    sent: an earlier patch of the same version may not know it."""


class WorkState(StrEnum):
    """How a command or an operation ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


A = TypeVar("A", bound=AnswerBody)


def filled(kind: type[A], *sources: object, **values: Any) -> A:
    """An answer with these values. Every other field is the attribute of its name that a source has, a time as text;
    what no source has keeps the default of the field."""
    found = {name: getattr(one, name) for one in sources for name in kind.__struct_fields__ if hasattr(one, name)}
    times = {name: format_time(value) for name, value in found.items() if isinstance(value, datetime)}
    return kind(**(found | times | values))


def time_of(at: datetime | None) -> str | None:
    return format_time(at) if at else None
