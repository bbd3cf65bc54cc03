"""Ended: a run is over, and everything that we have for it goes back to the pool. No release job is needed.

A runner that GitHub gave a job meanwhile, of a run that was started again, is not taken away: release leaves the busy.
"""

import asyncio

from bullpen.config import Settings
from bullpen.model.label import Label
from bullpen.ports import Ports, WorkflowRun
from bullpen.release import ReleaseOutcome, release
from bullpen.workflows.alerts import Voice
from bullpen.workflows.holdings import Held


async def give_back(
    ports: Ports, settings: Settings, run: WorkflowRun, held: Held, voice: Voice
) -> list[ReleaseOutcome]:
    """Release every label of a run that has anything. Cleaning is not awaited: it is owed, and seen to by whoever pays
    debts."""
    at_once = asyncio.Event()
    at_once.set()
    found = []
    for label in await _labels(ports, settings, run, held):
        released = await release(ports, settings, label, stop=at_once)
        if released.offered or released.terminated or released.pending:
            voice.tell(f"run {run.run} of {run.repository} is over ({run.conclusion}): label {label} is released")
        found.append(released)
    return found


async def _labels(ports: Ports, settings: Settings, run: WorkflowRun, held: Held) -> list[str]:
    """Those that have anything, as the lists have it; and each under which this attempt may be provisioned, for a list
    may lag behind a provision."""
    found = dict(held.labels)
    for attempt in (0, run.attempt):
        for name in ("", *settings.classes):
            label = str(Label(run.run, attempt, name))
            if label not in found and await ports.records.run_provisions(label):
                found[label] = None
    return list(found)
