"""Stale: an agent says that a job runs there, and GitHub says that the run has completed.

Who executes a job is not given back until that has ended, and who got one while it was given back is left alone until
then. An agent that never hears of the end, for its runner hangs or was lost, would be left alone for long. So GitHub is
asked after the run that it names: once that has completed there is no such job, and the machine is of no use.
"""

from collections.abc import Sequence

from bullpen.config import Settings
from bullpen.model import label as labels
from bullpen.model.activity import Activity
from bullpen.model.instance import IDLE, RUNNING, Instance
from bullpen.pool import busy, lifecycle
from bullpen.ports import Ports, WorkflowRun
from bullpen.workflows.alerts import Voice

BY = "follower"


async def end_busy(ports: Ports, settings: Settings, run: WorkflowRun, ids: Sequence[str], voice: Voice) -> None:
    """As `end`, for instances that a completed run still has because they say that they execute a job of it: once its
    last job ended so long ago that every runner has heard of it."""
    jobs = await ports.workflows.jobs(run.repository, run.run, run.attempt)
    ends = [job.completed_at for job in jobs if job.completed_at is not None]
    if ends and lifecycle.later(max(ends), settings.timings.orphan) <= ports.clock.now():
        await end(ports, settings, run, ids, voice)


async def end(ports: Ports, settings: Settings, run: WorkflowRun, ids: Sequence[str], voice: Voice) -> None:
    """End those of these that a completed run holds up, unless they say otherwise with their next heartbeat."""
    named = await busy.outlasting(ports, settings, ids)
    found = await ports.records.instances([id for id, job in named.items() if _is_over(job, run)])
    condemned = [one for one in found.values() if _is_held_up(one, run)]
    why = f"it says that it executes a job of run {run.run}, which has completed"
    fates = await lifecycle.expire_and_terminate(ports, settings, condemned, why, by=BY) if condemned else {}
    for id, fate in fates.items():
        if fate is not lifecycle.Fate.NOT_OURS:
            voice.tell(f"{id} is {fate}: {why}")


def _is_held_up(one: Instance, run: WorkflowRun) -> bool:
    """Whether it is still this run's, or given back and not clean."""
    if one.state is IDLE:
        return not one.attested
    label = labels.parse(one.run_id)
    return one.state is RUNNING and label is not None and label.run == run.run


def _is_over(job: Activity, run: WorkflowRun) -> bool:
    return (job.run, job.repository.casefold()) == (run.run, run.repository.casefold()) and job.attempt <= run.attempt
