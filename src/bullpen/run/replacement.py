"""Replaces the runners that a run has lost, while there are jobs for them."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from bullpen.config import Settings
from bullpen.liveness.interruption import leaving_instances
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.job import FINISHED, Job
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision

REPLACE_AGAIN = 5.0  # seconds after a replacement that failed


async def runners_of(ports: Ports, run_id: str) -> list[Instance]:
    return [one for one in await ports.records.run_instances(run_id) if one.state is RUNNING]


async def mute_runners(ports: Ports, settings: Settings, runners: Sequence[Instance]) -> list[Instance]:
    """Runners that have sent beats, and none for as long as it takes to declare a worker lost."""
    now = ports.clock.now()
    lease = settings.timings.lease
    # The sweeper confirms for at least a third of the lease: a replacement before that would be in vain.
    patience = timedelta(seconds=lease + max(settings.liveness.confirm, lease / 2 + 2.0))
    pulses = await ports.signals.read([one.id for one in runners]) if runners else {}
    return [one for one in runners if (beat := pulses[one.id].heartbeat) is not None and beat.at + patience <= now]


@dataclass(slots=True)
class Replacements:
    """Tops a run up. A silent runner may come back, and one that is about to be interrupted finishes its job: they
    stay, and are not counted.

    As a queue, the run needs a runner for each job that has not ended, up to the requested count. With `one_each`, it
    needs one that has had no job for each first try that is without a runner.
    """

    _ports: Ports
    _settings: Settings
    _request: Request
    _tell: Tell
    _one_each: bool
    has_failed: bool = False  # the last one that was asked for did not come
    fresh: int = 0  # runners that have had no job, as they were counted last
    _task: asyncio.Task[Outcome] | None = None
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
        runners = await runners_of(self._ports, self._request.run_id)
        mute = await mute_runners(self._ports, self._settings, runners)
        leaving = await leaving_instances(self._ports) if runners else {}
        lasting = [one.id for one in runners if one not in mute and one.id not in leaving]
        self.fresh = sum(id not in used for id in lasting)
        unfinished = [job for job in jobs if job.state is not FINISHED]
        if self._one_each:
            first = [job for job in unfinished if job.id not in later_tries]
            missing = sum(job.instance_id not in lasting for job in first) - self.fresh
            missing = max(missing, min(len(unfinished), 1) - len(lasting))
        else:
            missing = min(self._request.count, len(unfinished)) - len(lasting)
        if missing <= 0:
            return
        self._tell(ProgressReport(WorkPhase.REPLACE, f"replacing lost runners: {missing}", total=missing))
        request = replace(self._request, count=len(lasting) + missing, spares_silent=True)
        self._task = asyncio.get_running_loop().create_task(
            provision(self._ports, self._settings, request, stop=self._stop)
        )

    def _hear(self, outcome: Outcome, time: float) -> None:
        self.has_failed = len(outcome.members) < outcome.requested
        if self.has_failed:
            reason = outcome.reason or "no more could be launched"
            self._tell(ProgressReport(WorkPhase.REPLACE, f"no replacement: {reason}", about=reason))
            self._again_at = time + REPLACE_AGAIN

    async def close(self) -> None:
        """Give back what is under way."""
        if self._task is not None:
            self._stop.set()
            await asyncio.gather(self._task, return_exceptions=True)
