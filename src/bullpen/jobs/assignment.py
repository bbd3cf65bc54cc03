"""Assigns jobs to workers, and accepts their results.

A job goes to a worker whose lease holds, on an instance that runs for the job's run: both are checked in the very write
that assigns it. So no job is ever assigned to a worker that has just been declared lost, where no sweeper would find
it.

Jobs that wait together are spread: a runner that has had one leaves the next to a runner that has had none, see
`job_policy.is_left_to_others`.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from bullpen.config import Settings
from bullpen.errors import Conflict, InvalidTransition
from bullpen.jobs.queries import find, policy_of
from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance as instances
from bullpen.model import job as steps
from bullpen.model import job_policy
from bullpen.model.instance import Instance
from bullpen.model.job import Job, Result, shell_exit_code
from bullpen.model.job_policy import Assignment
from bullpen.model.transition import Check, Guard
from bullpen.model.worker import ACTIVE, Card, Worker
from bullpen.ports import Ports

CANDIDATES = 20
"""Jobs tried by one call: enough to get one while others take them too. All of them suit the worker."""

SPREAD = 1000
"""Jobs of a run that are looked at to spread them; a run of more is a queue."""


@dataclass(frozen=True, slots=True)
class StaleResult:
    """A result that came too late: another worker has the job, or it has ended. The record stays as it is."""

    job: Job
    fence: int
    exit_code: int


async def take(ports: Ports, settings: Settings, key: str) -> Job | None:
    """Assign the next job of its run to a worker; None if there is none for it, or it may not have one now."""
    now = ports.clock.now()
    worker = (await ports.workers.workers([key])).get(key)
    if worker is None or not worker.takes_jobs(now):
        return None
    instance = (await ports.records.instances([worker.instance_id])).get(worker.instance_id)
    if instance is None or instance.state is not instances.RUNNING:
        return None
    card = (await ports.workers.cards([key])).get(key)
    able = capabilities_of(card)
    waiting = await ports.jobs.queued(instance.run_id, now, CANDIDATES, able)
    lease = timedelta(seconds=settings.timings.lease)
    if any(job.avoid == key for job in waiting) and not await is_alone(ports, instance, lease):
        # It lost such a job before: another worker gets it, if there is one that could.
        waiting = await ports.jobs.queued(instance.run_id, now, CANDIDATES, able, without=key)
    if waiting and (await spread(ports, instance.run_id, waiting, able, lease)).leaves(instance.id):
        return None
    for job in waiting:
        try:
            return await _assign(ports, settings, job, worker, instance)
        except (Conflict, InvalidTransition):
            continue  # another worker took it, or this one may not: the next write shows which
    return None


@dataclass(frozen=True, slots=True)
class Spread:
    """Which runners of a run leave its waiting jobs to others."""

    used: frozenset[str] = frozenset()
    is_left: bool = False

    def leaves(self, instance_id: str) -> bool:
        return self.is_left and instance_id in self.used


async def spread(ports: Ports, run_id: str, waiting: Sequence[Job], able: Sequence[str], lease: timedelta) -> Spread:
    """How the jobs that wait are spread over the runners of their run. `waiting` are the first of those that suit."""
    now = ports.clock.now()
    runners = [one.id for one in await ports.records.run_instances(run_id) if one.state is instances.RUNNING]
    count = len(waiting)
    if count >= CANDIDATES and len(runners) > count:
        count = len(await ports.jobs.queued(run_id, now, len(runners), able))
    if not 0 < count < len(runners):
        return Spread()
    since = min((job.queued_at for job in waiting if job.queued_at is not None), default=now)
    used = await ports.jobs.runners_used(run_id, since, SPREAD)
    unused = [id for id in runners if id not in used]
    if not used or not unused:
        return Spread()
    beats = [pulse.heartbeat for pulse in (await ports.signals.read(unused)).values()]
    # One that has not beaten yet has only just been committed: its first heartbeat is on its way.
    free = sum(beat is None or (beat.at + lease > now and beat.leaving is None) for beat in beats)
    is_left = job_policy.is_left_to_others(waiting[0], now, waiting=count, free=free)
    return Spread(frozenset(used), is_left)


def capabilities_of(card: Card | None) -> tuple[str, ...]:
    """What a worker can do, as it reported it; an earlier version of the agent cannot run jobs with files."""
    return steps.able(card.capabilities, files=card.handles_files) if card is not None else ()


async def _assign(ports: Ports, settings: Settings, job: Job, worker: Worker, instance: Instance) -> Job:
    now = ports.clock.now()
    change = job_policy.assign(job, policy_of(settings), now, worker=worker, instance_id=instance.id)
    of_worker = {"state": ACTIVE, "epoch": worker.epoch, "leaving": None}
    of_instance = {"state": instances.RUNNING, "run_id": instance.run_id, "round": instance.round}
    checks = (
        Check(Worker, worker.id, (*_unchanged(of_worker), Guard("deadline", "after", now))),
        Check(Instance, instance.id, _unchanged(of_instance)),
    )
    (taken,) = await ports.records.apply(change, checks=checks)
    assert isinstance(taken, Job)
    return taken


def _unchanged(fields: dict[str, Any]) -> tuple[Guard, ...]:
    return tuple(Guard(name, "is", value) for name, value in fields.items())


async def postpone(ports: Ports, job_id: str, seconds: float, *, by: str) -> Job:
    """Keep a job that waits for a runner that is on its way: until so many seconds from now no other gets it. With 0,
    any may have it at once. One that does not wait stays as it is. Raise NotFound."""
    while (job := await find(ports, job_id)).state is steps.QUEUED:
        now = ports.clock.now()
        why = "kept for the replacement of its runner" if seconds else "a runner is free"
        postponed = steps.JobPostponed(at=now, by=by, why=why, not_before=now + timedelta(seconds=seconds))
        try:
            (landed,) = await ports.records.apply(steps.postpone(job, postponed))
            assert isinstance(landed, Job)
            return landed
        except Conflict:
            continue  # taken, ended or postponed between this read and this write
    return job


async def is_alone(ports: Ports, instance: Instance, lease: timedelta) -> bool:
    """True if no other runner of the run has beaten within a lease."""
    now = ports.clock.now()
    found = await ports.records.run_instances(instance.run_id)
    others = [one.id for one in found if one.state is instances.RUNNING and one.id != instance.id]
    beats = [pulse.heartbeat for pulse in (await ports.signals.read(others)).values()] if others else []
    return not any(beat is not None and beat.at + lease > now for beat in beats)


async def finish(
    ports: Ports,
    settings: Settings,
    job_id: str,
    assignment: Assignment,
    *,
    exit_code: int,
    result: Result = Result.NONE,
    why: str = "",
) -> Job | StaleResult:
    """Report the end of an assignment: it counts if it is the current one, and only once. Raise NotFound."""
    while True:
        job = await find(ports, job_id)
        policy, now = policy_of(settings), ports.clock.now()
        try:
            change = job_policy.finish(
                job, policy, now, assignment=assignment, exit_code=exit_code, result=result, why=why
            )
            (finished,) = await ports.records.apply(change)
            assert isinstance(finished, Job)
            return finished
        except (Conflict, InvalidTransition):
            job = await find(ports, job_id)
            if assignment.has_finished(job, exit_code):
                return job
            if not assignment.is_current(job):
                await _note_refusal(ports, job, assignment.fence, exit_code)
                return StaleResult(job, assignment.fence, exit_code)
            # It only moved on (bound, or asked to cancel) between this read and this write.


async def _note_refusal(ports: Ports, job: Job, fence: int, exit_code: int) -> None:
    """The log of an earlier assignment says what became of its result, if it has one.

    The holder of that assignment is not known any more, so a caller that names its fence is not trusted: no log is
    begun for it, and only the current holder writes to the log of the current assignment.
    """
    if not 1 <= fence < job.fence or not await ports.logs.read(job.id, fence, 0, 1):
        return
    end = await ports.logs.append(job.id, fence, 0, b"")
    await ports.logs.append(job.id, fence, end, refusal(exit_code))


def refusal(exit_code: int) -> bytes:
    code = shell_exit_code(exit_code)
    return f"\n[too late: the result {code} was refused, another worker has the job or it has ended]\n".encode()
