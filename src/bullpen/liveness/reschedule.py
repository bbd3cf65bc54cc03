"""Rescheduling: what becomes of jobs whose worker is lost, that no worker took up, or for which no worker is left.

One debt per lost worker, written with its loss: `lost_epoch` ahead of `settled_epoch`. It is paid job by job, each by
its own conditional write on (fence, worker, epoch), so a job that finished meanwhile is left alone, one that was moved
is not moved again, and a write that fails is repeated without the others. Settled is only a worker of whom a consistent
read finds no job any more: no assignment can follow, for it needs the worker active in that very epoch.

A job with side effects waits until the machine of the lost worker is gone; that end is asked for here, by expiring the
instance's record. The same goes for the machine of every retired worker. A worker that runs on no machine of the pool
cannot be ended: such a job waits until the worker is cleaned up and can no longer come back.

Where the CI has jobs of its own, a worker that is lost to one of its runs is left to bullpen.workflows, which alone
settles it, and alone may end its machine: nothing here knows whether its runner is still at work.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import field
from functools import partial

from bullpen.config import Settings
from bullpen.errors import Conflict, Refused, Unavailable
from bullpen.jobs import give_up_stranded
from bullpen.jobs.queries import policy_of
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness import evidence
from bullpen.liveness.evidence import Evidence
from bullpen.liveness.lost_worker import left_to_runs, settle
from bullpen.model import job_policy
from bullpen.model.instance import TERMINATED, InstanceFate
from bullpen.model.job import FINISHED, Job
from bullpen.model.worker import CLEANED_UP, Worker, WorkerFate
from bullpen.pool import lifecycle
from bullpen.ports import Ports

BY = "rescheduler"
PAGE = 1000  # debts, and jobs that no worker took up, of one pass
JOBS = 500  # of one worker at a time
AT_ONCE = 16  # debts paid side by side
STRANDED_EVERY = 5.0  # seconds
LONGEST_BACKOFF = 30.0
LEFT_FOR = 60.0  # seconds until the next look at one that was left to its workflow run: such a debt may stand for hours


@dataclass(slots=True)
class Rescheduling:
    """What one pass did. `alarms` are sentences for an operator."""

    requeued: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)  # with side effects: for the end of a machine
    settled: list[str] = field(default_factory=list)  # workers
    alarms: list[str] = field(default_factory=list)


class Rescheduler:
    """One payer of debts; any number may work at once. `run_once()` about every second."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._settings = settings
        self._stranded_at = 0.0
        self._later: dict[str, tuple[int, float]] = {}
        """Workers whose debt is not paid yet: how often it could not be paid in a row, and when to try again."""

    def adopt(self, settings: Settings) -> None:
        """Between two passes."""
        self._settings = settings

    async def run_once(self) -> Rescheduling:
        """One pass of bounded work. A debt that cannot be paid now is tried again, later each time; others go on."""
        done = Rescheduling()
        if not self._settings.liveness.tracking:
            return done  # without beats no worker is lost, and none reports what it runs
        owing = await self._ports.workers.owing(PAGE)
        if not self._settings.liveness.reschedule:
            done.alarms += [f"{one.id} is lost and rescheduling is off: its jobs stay with it" for one in owing]
            return done
        overdue = await self._ports.jobs.unverified(self._ports.clock.now(), PAGE)
        unproven = [job.instance_id for job in overdue if job.side_effects]
        due = self._due(owing)
        seen = await evidence.gather(self._ports, [*(one.instance_id for one in due), *unproven])
        left = await left_to_runs(self._ports, self._settings, due)
        time = asyncio.get_running_loop().time()
        self._later |= dict.fromkeys(sorted(left), (0, time + LEFT_FOR))
        own = [one for one in due if one.id not in left]
        for start in range(0, len(own), AT_ONCE):
            await asyncio.gather(*(self._try_to_pay(one, seen, done) for one in own[start : start + AT_ONCE]))
        for rest in (partial(self._requeue_unverified, overdue, seen), self._fail_stranded):
            try:
                await rest(done)
            except (Unavailable, Refused) as failure:
                done.alarms.append(f"jobs could not be given away ({failure})")
        return done

    def _due(self, owing: Sequence[Worker]) -> list[Worker]:
        time = asyncio.get_running_loop().time()
        keys = {one.id for one in owing}
        self._later = {key: entry for key, entry in self._later.items() if key in keys}
        return [one for one in owing if self._later.get(one.id, (0, time))[1] <= time]

    async def _try_to_pay(self, worker: Worker, seen: Evidence, done: Rescheduling) -> None:
        try:
            if await self._pay(worker, seen, done):
                self._later.pop(worker.id, None)
                return
            why = "its machine is not gone yet"
        except (Unavailable, Refused) as failure:
            why = str(failure)
        failures = self._later.get(worker.id, (0, 0.0))[0] + 1
        wait = min(2.0 ** (failures - 1), LONGEST_BACKOFF)
        self._later[worker.id] = (failures, asyncio.get_running_loop().time() + wait)
        done.alarms.append(f"{worker.id}: its jobs are not all given away ({why}); again in {wait:g} s")

    async def _pay(self, worker: Worker, seen: Evidence, done: Rescheduling) -> bool:
        """True if nothing is left to do for it."""
        gone = seen.is_gone(worker.instance_id)
        if worker.fate is WorkerFate.RETIRE and (not gone or seen.live_record(worker.instance_id)):
            gone = await self._end(worker.instance_id, seen, f"its worker {worker.id} is lost")
        waiting: list[Job] = []
        while True:
            # Those that wait stay in the list: it is read so far that they hide no other.
            limit = JOBS + len(waiting)
            found = await self._ports.jobs.held(worker.id, worker.lost_epoch, limit)
            if not gone and any(job.side_effects for job in found):
                gone = await self._end(worker.instance_id, seen, "a job with side effects was lost on it")
            safe = gone or (not worker.instance_id and worker.state is CLEANED_UP)
            waiting = [job for job in found if job.side_effects and not safe]
            if movable := [job for job in found if safe or not job.side_effects]:
                stuck = await self._rescue(movable, f"its worker {worker.id} is lost", done)
                if stuck:  # they cannot be written: reading again at once would find them again
                    raise Refused(str(stuck[0]))
            elif len(found) < limit:
                break
        if waiting:
            done.waiting += [job.id for job in waiting]
            return False
        if worker.fate is WorkerFate.RETIRE and not gone:
            return False
        if await settle(self._ports, worker, "it has no jobs any more", by=BY):
            done.settled.append(worker.id)
        return True

    async def _rescue(self, lost: Sequence[Job], why: str, done: Rescheduling) -> list[Conflict]:
        """Give them away, or up; returns the reason for those that could not be read or written."""
        policy, now = policy_of(self._settings), self._ports.clock.now()
        changes = [job_policy.give_back(job, policy, now, by=BY, why=why) for job in lost]
        landed = await self._ports.records.apply_each(changes)
        for job in landed:
            if not isinstance(job, Conflict):
                (done.given_up if job.state is FINISHED else done.requeued).append(job.id)
        return [one for one in landed if isinstance(one, Conflict) and one.found is None]

    async def _requeue_unverified(self, overdue: Sequence[Job], seen: Evidence, done: Rescheduling) -> None:
        """Assigned and never taken up, or over without a result: another worker gets them; this one stays active."""
        movable = []
        for job in overdue:
            safe = not job.side_effects or not job.instance_id or seen.is_gone(job.instance_id)
            if safe or await self._end(job.instance_id, seen, "a job with side effects was lost on it"):
                movable.append(job)
            else:
                done.waiting.append(job.id)
        if movable:
            await self._rescue(movable, "its worker never reported that it runs it", done)

    async def _fail_stranded(self, done: Rescheduling) -> None:
        """Now and then: a run waits for a runner much longer than for the next pass."""
        time = asyncio.get_running_loop().time()
        if time >= self._stranded_at:
            self._stranded_at = time + STRANDED_EVERY
            done.given_up += await give_up_stranded(self._ports, self._settings, by=BY)

    async def _end(self, instance_id: str, seen: Evidence, why: str) -> bool:
        """Have the machine ended; True once that is certain. The record is marked first: a crash leaves a debt."""
        if not instance_id:
            return False
        if (live := seen.live_record(instance_id)) is not None:
            fates = await lifecycle.expire_and_terminate(self._ports, self._settings, [live], why, by=BY)
            return fates[instance_id] is InstanceFate.TERMINATED
        record = seen.instances.get(instance_id)
        if record is not None and record.state is TERMINATED:
            return instance_id in await lifecycle.terminate(self._ports, self._settings, [record], by=BY)
        return instance_id in await self._ports.compute.terminate([instance_id])
