"""What `doctor` finds and what to do about it; the requests that other services still allow; and whether the store and
the services on it work."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from bullpen.lazy_dataclass import dataclass


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


Found = tuple[Health, str] | tuple[Health, str, str]
"""How something is, what was found, and the remedy where it is not well: a finding without its name."""


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


NOTED_FOR = 120.0
"""Seconds for which a note of a service counts; it notes again several times meanwhile."""


@dataclass(frozen=True, slots=True)
class ServiceNote:
    """A service that noted itself: it lives, or was killed less than `NOTED_FOR` ago."""

    process: str
    until: datetime

    @property
    def seen_at(self) -> datetime:
        return self.until - timedelta(seconds=NOTED_FOR)


class StoreHealth(Protocol):
    """Whether the store can be read and written, and what services noted there about themselves."""

    async def probe(self, now: datetime) -> None:
        """Write to the store and read that back, as new work would. Raise Unavailable, or whatever keeps it from that,
        such as a full disk."""

    async def note(self, process: str, failing: Sequence[FailingLoop], until: datetime) -> None:
        """Note that a process lives and which of its loops keep failing, instead of what it noted before. All of it is
        forgotten after `until`; a process that ends says so with a time that has passed."""

    async def noted(self, now: datetime) -> list[FailingLoop]:
        """What all processes noted and is not forgotten, in order of process and loop."""

    async def services(self, now: datetime) -> list[ServiceNote]:
        """The processes that noted themselves and are not forgotten, by name."""
