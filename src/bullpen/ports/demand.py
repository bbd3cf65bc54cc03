"""Demand: how many jobs of a set wait for a runner, as the process that listens to the set knows it.

A CI that assigns jobs to sets counts them itself (`ScaleSets`). One that only lists queued jobs can be counted by its
engine. Supply reads no more than this.
"""

from datetime import datetime
from typing import Protocol

from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class JobStart:
    """A job that the CI gave to a runner: when it was queued there, and when this process heard of its start."""

    queued_at: datetime | None
    heard_at: float  # by the event loop


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
    def current(self) -> JobDemand | None:
        """What is known now; None if the CI has not said anything yet."""
