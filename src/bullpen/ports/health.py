"""What `doctor` finds: one thing that was looked at, how it is, and what to do about it; and what `status` says is left
of what others allow us."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Health(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` is empty where all is well."""

    name: str
    health: Health
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """Requests that a service still allows of one kind, until it counts anew."""

    resource: str
    limit: int
    remaining: int
    resets_at: datetime
