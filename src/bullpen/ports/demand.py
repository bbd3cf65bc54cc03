"""Demand: how many jobs of a set wait for a runner, as the process that listens to the set knows it.

A CI that assigns jobs to sets counts them itself (`ScaleSets`); its listener is a demand. For one that only lists
queued jobs, what lists and counts them is a demand. Supply reads no more than this.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from bullpen.lazy_dataclass import dataclass
from bullpen.model.set_session import WaitingJob


@dataclass(frozen=True, slots=True)
class JobStart:
    """A job that the CI gave to a runner: when it was queued there, and when this process heard of its start."""

    queued_at: datetime | None
    heard_at: float  # by the event loop
    runner: str = ""  # its name at the CI


@dataclass(frozen=True, slots=True)
class JobDemand:
    """One snapshot of the CI's count. Times are the event loop's."""

    assigned: int  # jobs that wait for a runner of the set, and those that run
    running: int
    counted_at: float  # when these numbers arrived
    heard_at: float  # when the CI last answered at all: it says nothing while nothing changes
    announced_at: float | None = None  # when it announced a job together with these numbers, which do not count it
    listens_since: float = 0.0  # when the session was opened
    starts: tuple[JobStart, ...] = ()  # the latest


class Demand(Protocol):
    """What the CI wants of one set. Its methods answer at once, from what is known already; after each change of that
    the implementation wakes the supplier."""

    def current(self) -> JobDemand | None:
        """The latest count; None if the CI has not said anything yet. It decides how many runners the set gets.

        Both numbers are of one moment. While the CI does not answer, `heard_at` stays as it is: supply decides nothing
        by numbers that are too old. A count may be too high for ever, and that must not be corrected here.
        """

    def trouble(self) -> str:
        """Why the CI cannot be heard at this time, for people; empty while it can."""

    def is_limited(self) -> bool:
        """Whether it cannot be heard because of a rate limit of the CI."""

    def waiting(self, now: datetime) -> Sequence[WaitingJob]:
        """The jobs that wait, as far as they are known one by one, in any order. For people: it decides nothing.

        Some may be missing, and then `current()` has more. Each keeps its `since` for as long as it waits. Those that
        the CI has taken back (`taken_back_at`) are not in the count of `current()`. `why` is ignored.
        """
