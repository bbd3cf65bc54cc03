"""How a job leaves its worker or ends without a result: cancelled, given back, its run over, or no runner left."""

from collections.abc import Sequence
from datetime import timedelta

from bullpen.config import Settings
from bullpen.errors import Conflict, InvalidTransition
from bullpen.jobs.queries import PAGE, find, policy_of, unfinished
from bullpen.model import instance as instances
from bullpen.model import job as steps
from bullpen.model import job_policy
from bullpen.model.job import Job, Result
from bullpen.model.job_policy import Assignment
from bullpen.model.pause import Pause, paused_by
from bullpen.model.provision import OPEN
from bullpen.ports import Ports

BARE_RUNS = "runs with jobs and no runner"
"""The topic under which `Observations` keeps since when."""


async def cancel(ports: Ports, settings: Settings, job_id: str, *, by: str, why: str) -> Job:
    """End a job that waits, and ask the worker of one that runs to stop it. One that has ended stays as it is."""
    while True:
        job = await find(ports, job_id)
        if job.state is steps.FINISHED or job.cancelling:
            return job
        now = ports.clock.now()
        try:
            if job.state is steps.QUEUED:
                change = job_policy.give_up(job, policy_of(settings), now, by=by, why=why, result=Result.CANCELLED)
            else:
                change = steps.ask_to_cancel(job, steps.CancelAsked(at=now, by=by, why=why))
            (landed,) = await ports.records.apply(change)
            assert isinstance(landed, Job)
            return landed
        except (Conflict, InvalidTransition):
            continue  # taken, lost or ended between this read and this write


async def give_back(ports: Ports, settings: Settings, job_id: str, assignment: Assignment, *, why: str) -> Job:
    """Queue a job again if its holder asks for it, or end it; else it stays as it is. Raise NotFound.

    A worker that leaves does this: another one may have the job at once, and not only when the lease runs out.
    """
    while True:
        job = await find(ports, job_id)
        if not assignment.is_current(job):
            return job
        try:
            now = ports.clock.now()
            change = job_policy.give_back(job, policy_of(settings), now, by=assignment.worker, why=why)
            (landed,) = await ports.records.apply(change)
            assert isinstance(landed, Job)
            return landed
        except (Conflict, InvalidTransition):
            continue  # it moved between this read and this write


async def conclude(
    ports: Ports, settings: Settings, run_id: str, *, by: str, why: str, running: bool = False
) -> list[str]:
    """A run is over: cancel its queued jobs and, with `running`, those without a worker too. Returns their ids."""
    states = (steps.QUEUED, steps.RUNNING) if running else (steps.QUEUED,)
    left = [job for job in await unfinished(ports, run_id) if job.state in states]
    return await _give_up(ports, settings, left, by=by, why=why, result=Result.CANCELLED)


async def give_up_stranded(ports: Ports, settings: Settings, *, by: str, dry_run: bool = False) -> list[str]:
    """Fail the queued jobs of runs that were seen without a runner, or one on its way, for long enough.

    Since when is kept in the store, so that calls of different processes add up. It does not count while an operator
    has paused the run's class: no runner can come then.
    """
    bare = [run_id for run_id in await _waiting_runs(ports) if not await _has_runner(ports, settings, run_id)]
    if bare and (pauses := [one for one in await ports.records.pauses() if one.is_on]):
        bare = [run_id for run_id in bare if not await _waits_for_resume(ports, run_id, pauses)]
    now = ports.clock.now()
    patience = settings.liveness.wait_for_runner
    seen_since = await ports.observations.observe(BARE_RUNS, bare, now, remember=not dry_run)
    why = f"its run has no runner, and none came within {patience:g} s"
    ended: list[str] = []
    for run_id in bare:
        if (now - seen_since[run_id]).total_seconds() >= patience:
            stranded = [job for job in await unfinished(ports, run_id) if job.state is steps.QUEUED]
            if dry_run:
                ended += [job.id for job in stranded]
            else:
                ended += await _give_up(ports, settings, stranded, by=by, why=why, result=Result.FAILED)
    return ended


async def _waiting_runs(ports: Ports) -> list[str]:
    found: list[str] = []
    while page := await ports.jobs.waiting_runs(PAGE, found[-1] if found else ""):
        found += page
    return found


async def _has_runner(ports: Ports, settings: Settings, run_id: str) -> bool:
    """True if a runner lives, or is on its way. One that has been silent for as long as a job waits is none."""
    held = await ports.records.run_instances(run_id)
    if any(one.state is not instances.RUNNING for one in held):
        return True
    now = ports.clock.now()
    if any(one.state is OPEN and one.deadline > now for one in await ports.records.run_provisions(run_id)):
        return True
    pulses = await ports.signals.read([one.id for one in held]) if held else {}
    beats = [pulse.heartbeat for pulse in pulses.values() if pulse.heartbeat is not None]
    patience = timedelta(seconds=settings.liveness.wait_for_runner)
    return any(beat.at + patience > now for beat in beats)


async def _waits_for_resume(ports: Ports, run_id: str, pauses: Sequence[Pause]) -> bool:
    """True if the run had runners, was not released, and gets no others as long as its class is paused."""
    met = [one for one in await ports.records.run_provisions(run_id) if one.members and not one.is_over]
    return any(paused_by(pauses, one.needs.resource_class) is not None for one in met)


async def _give_up(
    ports: Ports, settings: Settings, jobs: Sequence[Job], *, by: str, why: str, result: Result
) -> list[str]:
    """End each job as it was read; one that another process changed meanwhile is left to that process."""
    policy, now = policy_of(settings), ports.clock.now()
    changes = [job_policy.give_up(job, policy, now, by=by, why=why, result=result) for job in jobs]
    landed = await ports.records.apply_each(changes)
    return [one.id for one in landed if isinstance(one, Job)]
