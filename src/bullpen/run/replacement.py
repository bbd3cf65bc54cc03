"""Replaces the runners that a run has lost, while there are jobs for them, and keeps lost jobs for them.

A run on a home and one on a server do this alike: each has a `RunnerSupply` of its own.
"""

import asyncio
from collections.abc import Collection, Coroutine, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.interruption import leaving_instances
from bullpen.liveness.silence import is_mute
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.job import FINISHED, QUEUED, Job
from bullpen.model.pause import paused_by, words_of
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.ports import Ports
from bullpen.provision import Request, provision

REPLACE_AGAIN = 5.0  # seconds after a replacement that failed
KEEP_FOR = 30.0  # seconds that a lost job is kept for a replacement at a time: if this process dies, it is free then


class RunnerSupply(Protocol):
    """The runners of one run."""

    async def lasting(self) -> list[str]:
        """Those that neither are silent nor are about to be interrupted. A silent one may come back, and one that is
        about to be interrupted finishes its job: they stay."""
        ...

    def top_up(self, count: int, stop: asyncio.Event) -> Coroutine[Any, Any, str]:
        """Ask for as many as lack up to `count`. Returns why fewer came; empty if none lacks."""
        ...


@dataclass(frozen=True, slots=True)
class PoolRunners:
    """The runners of a run on a home."""

    ports: Ports
    settings: Settings
    request: Request

    async def lasting(self) -> list[str]:
        runners = await runners_of(self.ports, self.request.run_id)
        mute = await mute_runners(self.ports, self.settings, runners)
        leaving = await leaving_instances(self.ports) if runners else {}
        return [one.id for one in runners if one not in mute and one.id not in leaving]

    async def top_up(self, count: int, stop: asyncio.Event) -> str:
        pause = paused_by(await self.ports.records.pauses(), self.request.needs.resource_class)
        if pause is not None:  # every refused provision leaves a record
            return words_of(pause)
        request = replace(self.request, count=count, spares_silent=True)
        outcome = await provision(self.ports, self.settings, request, stop=stop)
        return "" if len(outcome.members) >= outcome.requested else outcome.reason or "no more could be launched"


async def runners_of(ports: Ports, run_id: str) -> list[Instance]:
    return [one for one in await ports.records.run_instances(run_id) if one.state is RUNNING]


async def mute_runners(ports: Ports, settings: Settings, runners: Sequence[Instance]) -> list[Instance]:
    pulses = await ports.signals.read([one.id for one in runners]) if runners else {}
    return [one for one in runners if is_mute(settings, pulses[one.id].heartbeat, ports.clock.now())]


@dataclass(slots=True)
class Replacements:
    """Tops a run up.

    As a queue, the run needs a runner for each job that has not ended, up to the requested count. With `one_each`, it
    needs one that has had no job for each first try that is without a runner. Two counts of the runners are `every`
    seconds apart at least.
    """

    _runners: RunnerSupply
    _count: int
    _tell: Tell
    _one_each: bool
    _every: float = 0.0
    has_failed: bool = False  # the last one that was asked for did not come
    fresh: int = 0  # runners that have had no job, as they were counted last
    _task: asyncio.Task[str] | None = None
    _again_at: float = 0.0
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def replace_lost(
        self, time: float, jobs: Sequence[Job], used: Collection[str], later_tries: Collection[str]
    ) -> None:
        """Ask for what is missing, unless an earlier request is still under way or failed a moment ago.

        `used` are the runners that have, or had, one of the jobs; `later_tries` the ids of jobs that failed before.
        """
        if self._task is not None:
            if not self._task.done():
                return
            self._hear(self._task.result(), time)
            self._task = None
        if time < self._again_at:
            return
        self._again_at = time + self._every
        lasting = await self._runners.lasting()
        self.fresh = sum(id not in used for id in lasting)
        unfinished = [job for job in jobs if job.state is not FINISHED]
        if self._one_each:
            first = [job for job in unfinished if job.id not in later_tries]
            missing = sum(job.instance_id not in lasting for job in first) - self.fresh
            missing = max(missing, min(len(unfinished), 1) - len(lasting))
        else:
            missing = min(self._count, len(unfinished)) - len(lasting)
        if missing <= 0:
            return
        self._tell(ProgressReport(WorkPhase.REPLACE, f"replacing lost runners: {missing}", total=missing))
        asked = self._runners.top_up(len(lasting) + missing, self._stop)
        self._task = asyncio.get_running_loop().create_task(asked)

    def _hear(self, reason: str, time: float) -> None:
        self.has_failed = bool(reason)
        if reason:
            self._tell(ProgressReport(WorkPhase.REPLACE, f"no replacement: {reason}", about=reason))
            self._again_at = time + REPLACE_AGAIN

    async def close(self) -> None:
        """Give back what is under way."""
        if self._task is not None:
            self._stop.set()
            await asyncio.gather(self._task, return_exceptions=True)


@dataclass(slots=True)
class KeptJobs:
    """Lost jobs that wait for the runner that replaces the lost one, for as long as one may come."""

    _replacements: Replacements
    _until: dict[tuple[str, int], float] = field(default_factory=dict)  # by job and number of its losses
    _let_go: set[str] = field(default_factory=set)  # any runner may have them

    def to_postpone(self, time: float, first_tries: Sequence[Job]) -> Iterator[tuple[Job, float]]:
        """The jobs to keep from now on, each for so many seconds; with 0, a runner is free for it."""
        lost = [job for job in first_tries if job.state is QUEUED and job.losses]
        # One fresh runner for each. It counts as fresh until it has the job, and the count may be some seconds old.
        free = self._replacements.fresh - sum(job.id in self._let_go for job in lost)
        for job in lost:
            if job.id in self._let_go:
                continue
            if free > 0 or self._replacements.has_failed:
                self._let_go.add(job.id)
                self._replacements.fresh -= 1
                free -= 1
                yield job, 0.0
            elif self._until.get((job.id, job.losses), 0.0) <= time + KEEP_FOR / 2:
                self._until[job.id, job.losses] = time + KEEP_FOR
                yield job, KEEP_FOR
