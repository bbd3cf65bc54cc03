"""Stranded: jobs wait for a label that has lost all its runners, and GitHub would let them wait for a day.

They get replacements, as many as wait and at most as many as were asked for. Where there are none to be had, the run is
cancelled once nothing else of it goes on, if its repository lets us act on its runs: it fails visibly instead of
waiting in vain. Else an operator is told, and it is tried again with the next look.
"""

from collections.abc import Sequence

from bullpen.config import Settings
from bullpen.ports import Ports, WorkflowJob, WorkflowRun
from bullpen.workflows.holdings import Held
from bullpen.workflows.loss import Loss
from bullpen.workflows.rescue import Rescue, opted_in
from bullpen.workflows.runners import Refusal, Runners
from bullpen.workflows.saying import Voice


class Stranded:
    def __init__(self, ports: Ports, settings: Settings, runners: Runners, rescue: Rescue, voice: Voice) -> None:
        self._ports = ports
        self._settings = settings
        self._runners = runners
        self._rescue = rescue
        self._voice = voice

    async def see_to(self, run: WorkflowRun, held: Held) -> None:
        """See to what a run that goes on has lost."""
        deserted = []
        for label in dict.fromkeys(loss.label for loss in held.losses):
            own = [loss for loss in held.losses if loss.label == label]
            if label in held.served:  # a provision at work may be one of the dead: it proves nothing
                await self._rescue.settle(_without_job(run, own), f"label {label} has other runners")
            elif not await self._runners.wanted(label):
                await self._rescue.settle(_without_job(run, own), f"label {label} was given back")
            else:
                deserted.append(label)
        if deserted:
            await self.replace(run, deserted, held.losses)

    async def replace(self, run: WorkflowRun, labels: Sequence[str], losses: Sequence[Loss] = ()) -> None:
        """Provide runners for those of these labels that jobs wait for."""
        jobs = await self._ports.workflows.jobs(run.repository, run.run, run.attempt)
        for label in labels:
            waiting = [job for job in jobs if job.waits and label.casefold() in map(str.casefold, job.labels)]
            if not waiting:
                continue
            count = min(len(waiting), await self._runners.wanted(label) or len(waiting))
            refusal = await self._runners.provide(label, count)
            if refusal is None:
                self._voice.tell(f"run {run.run} of {run.repository}: label {label} had lost all, and has {count}")
            else:
                await self._fail(run, label, jobs, losses, refusal)

    async def _fail(
        self, run: WorkflowRun, label: str, jobs: Sequence[WorkflowJob], losses: Sequence[Loss], refusal: Refusal
    ) -> None:
        lost = {loss.activity.runner for loss in losses if loss.activity is not None}
        at_work = [job for job in jobs if not job.completed and job.runner and job.runner not in lost]
        said = f"run {run.run} of {run.repository}: jobs wait for label {label}, and no runner comes: {refusal.reason}"
        if not opted_in(self._settings, run.repository):
            self._voice.alarm(f"{said}; the repository is not in github.rescue, so it is left waiting")
        elif at_work:
            self._voice.alarm(f"{said}; it is cancelled if that is still so when its other jobs have ended")
        else:
            await self._ports.workflows.cancel(run.repository, run.run)
            self._voice.alarm(f"{said}; it is cancelled")
            # Whoever wants it again will say so: to run again by ourselves what we have cancelled would surprise.
            await self._rescue.settle(losses, f"run {run.run} was cancelled: label {label} gets no runners")


def _without_job(run: WorkflowRun, losses: Sequence[Loss]) -> list[Loss]:
    """Those whose job nobody has to see to any more: there was none, or its attempt was run again."""
    return [loss for loss in losses if loss.activity is None or loss.activity.attempt < run.attempt]
