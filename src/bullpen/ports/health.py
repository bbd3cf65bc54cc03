"""What `doctor` finds and what to do about it; the requests that other services still allow; and whether the store and
the services on it work."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


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
    """Requests that a service still allows of one kind, until the limit resets."""

    resource: str
    limit: int
    remaining: int
    resets_at: datetime


@dataclass(frozen=True, slots=True)
class FailingLoop:
    """A loop of a service of which every run has failed since a time, and the last error. `process` is which service,
    where several are listed."""

    loop: str
    since: datetime
    error: str
    process: str = ""


class StoreHealth(Protocol):
    """Whether the store can be read and written, and what services noted there about themselves."""

    async def probe(self, now: datetime) -> None:
        """Write to the store and read that back, as new work would. Raise Unavailable, or whatever keeps it from that,
        such as a full disk."""

    async def note(self, process: str, failing: Sequence[FailingLoop], until: datetime) -> None:
        """Replace what a process noted before; none: it has nothing to say. It is forgotten after `until`."""

    async def noted(self, now: datetime) -> list[FailingLoop]:
        """What all processes noted and is not forgotten, in order of process and loop."""
