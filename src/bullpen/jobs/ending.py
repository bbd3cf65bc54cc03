"""How a job ends that nobody runs to its end: cancelled, its run over, or no runner left for it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.errors import Conflict, InvalidTransition
from bullpen.jobs.queries import find, unfinished
from bullpen.model import instance as instances
from bullpen.model import job as steps
from bullpen.model.job import Job, Result
from bullpen.model.provision import OPEN
from bullpen.ports import Ports

PAGE = 500
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
                change = steps.give_up(job, _given_up(settings, now, by, why, Result.CANCELLED))
            else:
                change = steps.ask_to_cancel(job, steps.CancelAsked(at=now, by=by, why=why))
            (landed,) = await ports.records.apply(change)
            assert isinstance(landed, Job)
            return landed
        except (Conflict, InvalidTransition):
            continue  # taken, lost or ended between our look and our write: look again


async def conclude(
    ports: Ports, settings: Settings, run_id: str, *, by: str, why: str, running: bool = False
) -> list[str]:
    """A run is over: cancel its queued jobs and, if nobody `running` them is left, those too. Returns their ids."""
    states = (steps.QUEUED, steps.RUNNING) if running else (steps.QUEUED,)
    left = [job for job in await unfinished(ports, run_id) if job.state in states]
    return await _give_up(ports, settings, left, by=by, why=why, result=Result.CANCELLED)


async def give_up_stranded(ports: Ports, settings: Settings, *, by: str, dry_run: bool = False) -> list[str]:
    """Fail the queued jobs of runs that were seen without a runner, or one on its way, for long enough.

    Seen by anybody: since when is kept in the store, so that calls of different processes add up.
    """
    bare = [run_id for run_id in await _waiting_runs(ports) if not await _has_runner(ports, settings, run_id)]
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
    """True if a runner lives, or is on its way. One that has been mute for as long as we would wait is none."""
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


async def _give_up(
    ports: Ports, settings: Settings, jobs: Sequence[Job], *, by: str, why: str, result: Result
) -> list[str]:
    """End each where it stands; one that moved meanwhile is left to whoever moved it."""
    event = _given_up(settings, ports.clock.now(), by, why, result)
    landed = await ports.records.apply_each([steps.give_up(job, event) for job in jobs])
    return [one.id for one in landed if isinstance(one, Job)]


def _given_up(settings: Settings, now: datetime, by: str, why: str, result: Result) -> steps.GivenUp:
    return steps.GivenUp(
        at=now, by=by, why=why, purge_at=now + timedelta(seconds=settings.timings.purge), result=result
    )
