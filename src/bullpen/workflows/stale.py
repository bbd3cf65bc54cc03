"""Stale: an agent says that a job runs there, and GitHub says that the run has completed.

Who was given back while it executed a job is left alone until that has ended. An agent that never hears of the end, for
its runner hangs or was lost, would be left alone for long. So GitHub is asked after the run that it names: once that
has completed there is no such job, and the machine is of no use.
"""

from bullpen import busy, handover
from bullpen.config import Settings
from bullpen.model.activity import Activity
from bullpen.model.instance import IDLE
from bullpen.ports import Ports, WorkflowRun
from bullpen.workflows.holdings import Held
from bullpen.workflows.saying import Voice

BY = "follower"


async def end(ports: Ports, settings: Settings, run: WorkflowRun, held: Held, voice: Voice) -> None:
    """End those that a completed run holds up, unless they say otherwise with their next heartbeat."""
    if not held.stale:
        return
    named = await busy.outlasting(ports, settings, held.stale)
    found = await ports.records.instances([id for id, job in named.items() if _is_over(job, run)])
    condemned = [one for one in found.values() if one.state is IDLE and not one.attested]
    why = f"it says that it executes a job of run {run.run}, which has completed"
    fates = await handover.expire_and_terminate(ports, settings, condemned, why, by=BY) if condemned else {}
    for id, fate in fates.items():
        if fate is not handover.Fate.NOT_OURS:
            voice.tell(f"{id} is {fate}: {why}")


def _is_over(job: Activity, run: WorkflowRun) -> bool:
    return (job.run, job.repository.casefold()) == (run.run, run.repository.casefold()) and job.attempt <= run.attempt
