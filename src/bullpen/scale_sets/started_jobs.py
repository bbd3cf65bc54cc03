"""Jobs that the CI gave to a runner, until it is certain that no rescue needs them.

    JobStarted ──▶ kept ──▶ a heartbeat names the job: the record of the worker has it from now on
                       ├──▶ a later heartbeat of its agent names another runner, or none after JobCompleted
                       └──▶ its instance has left the set, and no lost worker of it is unsettled

An agent may die before its first heartbeat names the job. Then these entries alone say which run has lost one, so none
is forgotten because of a message: JobCompleted also comes for a job that runs, and for one whose runner is dead.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from bullpen.lazy_dataclass import dataclass
from bullpen.model.set_session import STARTED_LIMIT, StartedJob
from bullpen.model.times import later

UNSETTLED = 300.0
"""Seconds for which the entry of an instance that left the set is kept in any case: by then a lost worker is known as
lost."""


@dataclass(frozen=True, slots=True)
class RunnerWord:
    """What the last heartbeat of a living agent says about its runner, and when it arrived, by the event loop."""

    runner: str  # empty: it has none
    at: float


class StartedJobs:
    def __init__(self, stored: Iterable[StartedJob], instance_of: Callable[[str], str | None]) -> None:
        self._instance_of = instance_of
        self._jobs = {job.id: job for job in stored}
        self._heard_at: dict[str, float] = {}  # of the jobs that this process heard of
        self._completed: set[str] = set()

    def all(self) -> tuple[StartedJob, ...]:
        return tuple(self._jobs.values())

    def begin(self, job: StartedJob, time: float) -> None:
        self._jobs[job.id], self._heard_at[job.id] = job, time
        while len(self._jobs) > STARTED_LIMIT:
            self._forget([next(iter(self._jobs))])

    def complete(self, id: str) -> None:
        """By a message. What its agent reports decides."""
        if id in self._jobs:
            self._completed.add(id)

    def bound(self, runners: Collection[str]) -> None:
        """Heartbeats name the jobs of these runners: the records of their workers have them from now on."""
        self._forget([id for id, job in self._jobs.items() if job.runner in runners])

    def hear(self, words: Mapping[str, RunnerWord]) -> None:
        """What living agents report, by instance."""
        self._forget([id for id, job in self._jobs.items() if self._is_over(job, words)])

    def left(self, members: Collection[str], now: datetime) -> list[str]:
        """Instances that are not members any more, and have an entry that is not new."""
        old = [job for job in self._jobs.values() if job.at is None or later(job.at, UNSETTLED) <= now]
        found = [one for job in old if (one := self._instance_of(job.runner)) is not None]
        return list(dict.fromkeys(one for one in found if one not in members))

    def forget(self, instances: Collection[str]) -> None:
        """No rescue needs the jobs of these instances."""
        self._forget([id for id, job in self._jobs.items() if self._instance_of(job.runner) in instances])

    def _is_over(self, job: StartedJob, words: Mapping[str, RunnerWord]) -> bool:
        word = words.get(self._instance_of(job.runner) or "")
        if word is None or word.at <= self._heard_at.get(job.id, 0.0):
            return False  # the heartbeat may be older than the job
        return word.runner != job.runner if word.runner else job.id in self._completed

    def _forget(self, ids: Iterable[str]) -> None:
        for id in ids:
            del self._jobs[id]
            self._heard_at.pop(id, None)
            self._completed.discard(id)
