"""What `doctor` finds: one thing that was looked at, how it is, and what to do about it."""

from dataclasses import dataclass
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
