"""A run has completed: its runners go back to the pool. No release job is needed.

A runner that GitHub gave another job in between, of a run that was re-run, is not taken away: release leaves busy
instances alone.

An instance whose agent reports a job is not given back until that job has ended. An agent that misses the end, because
its runner hangs or was lost, would be left alone for long. So once GitHub says that the run which the agent names has
completed, the instance is stale: the job does not exist any more, and the machine is ended.
"""

import asyncio
from collections.abc import Sequence

from bullpen.config import Settings
from bullpen.model import label as labels
from bullpen.model.activity import Activity
from bullpen.model.instance import IDLE, RUNNING, Instance, InstanceFate
from bullpen.model.label import Label
from bullpen.model.set_member import set_of
from bullpen.model.times import later
from bullpen.pool import busy, lifecycle
from bullpen.ports import Ports, WorkflowRun
from bullpen.release import ReleaseOutcome, release
from bullpen.workflows.alerts import ReportCollector
from bullpen.workflows.holdings import RunHoldings

BY = "workflows"


async def give_back(
    ports: Ports, settings: Settings, run: WorkflowRun, held: RunHoldings, report: ReportCollector
) -> list[ReleaseOutcome]:
    """Release every label for which the pool holds something. Cleaning is not awaited: it is a debt, which any process
    pays."""
    at_once = asyncio.Event()
    at_once.set()
    found = []
    for label in await _labels(ports, settings, run, held):
        released = await release(ports, settings, label, stop=at_once)
        if released.offered or released.terminated or released.pending:
            ended = run.conclusion
            report.note("label released", run=run.run, repository=run.repository, conclusion=ended, label=label)
        found.append(released)
    return found


async def _labels(ports: Ports, settings: Settings, run: WorkflowRun, held: RunHoldings) -> list[str]:
    """The labels that the lists show; and every label under which this attempt may be provisioned, because a list may
    lag behind a provision."""
    found = dict(held.labels)
    for attempt in (0, run.attempt):
        for name in ("", *settings.classes):
            label = str(Label(run.run, attempt, name))
            if label not in found and await ports.records.run_provisions(label):
                found[label] = None
    return list(found)


async def end_busy(
    ports: Ports, settings: Settings, run: WorkflowRun, ids: Sequence[str], report: ReportCollector
) -> None:
    """As `end_stale`, for instances that still run for a completed run or for a scale set because their agents report a
    job of it: only once its last job ended so long ago that every runner should know."""
    jobs = await ports.workflows.jobs(run.repository, run.run, run.attempt)
    ends = [job.completed_at for job in jobs if job.completed_at is not None]
    if ends and later(max(ends), settings.timings.orphan) <= ports.clock.now():
        await end_stale(ports, settings, run, ids, report)


async def end_stale(
    ports: Ports, settings: Settings, run: WorkflowRun, ids: Sequence[str], report: ReportCollector
) -> None:
    """End the instances that report a job of a completed run, unless their next heartbeat no longer does."""
    named = await busy.outlasting(ports, settings, ids)
    found = await ports.records.instances([id for id, job in named.items() if _is_of(job, run)])
    condemned = [one for one in found.values() if _is_stale(one, run)]
    why = f"its agent reports a job of run {run.run}, which has completed"
    fates = await lifecycle.expire_and_terminate(ports, settings, condemned, why, by=BY) if condemned else {}
    for id, fate in fates.items():
        if fate is not InstanceFate.NOT_OURS:
            report.note("instance given up", instance=id, fate=fate, reason=why)


def _is_stale(one: Instance, run: WorkflowRun) -> bool:
    """True if it still belongs to this run or to a scale set, or was given back and is not clean."""
    if one.state is IDLE:
        return not one.attested
    if set_of(one) is not None:
        return one.state is RUNNING
    label = labels.parse(one.run_id)
    return one.state is RUNNING and label is not None and label.run == run.run


def _is_of(job: Activity, run: WorkflowRun) -> bool:
    return (job.run, job.repository.casefold()) == (run.run, run.repository.casefold()) and job.attempt <= run.attempt
