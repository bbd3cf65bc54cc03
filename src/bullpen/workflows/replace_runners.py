"""Stranded: jobs wait for a label that has lost all its runners, and GitHub would let them wait for a day.

They get replacements, as many as wait and at most as many as were asked for. Where there are none to be had, the run is
cancelled once nothing else of it goes on, if its repository lets us act on its runs: it fails visibly instead of
waiting in vain. Else an operator is told, and it is tried again with the next look.

Where lost jobs were run again, those that need them come later, and may ask for labels that were given back meanwhile:
these get their runners in the same way, until the run has completed once more.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bullpen.config import Settings
from bullpen.liveness.lost_worker import Loss
from bullpen.model import label as labels
from bullpen.ports import Conclusion, Ports, WorkflowJob, WorkflowRun
from bullpen.workflows.alerts import Voice
from bullpen.workflows.holdings import Held
from bullpen.workflows.reprovision import Refusal, Runners
from bullpen.workflows.rescue import Rescue, named, opted_in

FIRST_PAUSE = 60.0  # seconds until runners are asked for again where there were none
LONGEST_PAUSE = 300.0
FORGOTTEN = 3600.0  # seconds after which a refusal tells nothing any more


@dataclass(frozen=True, slots=True)
class Pause:
    """There were no runners for a label, and nobody asks for any until then."""

    refusal: Refusal
    seconds: float
    until: float


class Stranded:
    def __init__(self, ports: Ports, settings: Settings, runners: Runners, rescue: Rescue, voice: Voice) -> None:
        self._ports = ports
        self._settings = settings
        self._runners = runners
        self._rescue = rescue
        self._voice = voice
        self._pauses: dict[str, Pause] = {}
        """By label. Each try leaves a record behind: a day of them must not be one a look."""

    async def see_to(self, run: WorkflowRun, held: Held) -> None:
        """See to what a run that goes on has lost."""
        deserted: dict[str, None] = {}
        sated: dict[str, str] = {}
        for label in dict.fromkeys(loss.label for loss in held.losses):
            if label in held.served:  # a provision at work may be one of the dead: it proves nothing
                sated[label] = f"label {label} has other runners"
            elif not await self._runners.wanted(label):
                sated[label] = f"label {label} was given back"
            else:
                deserted[label] = None
        acts = opted_in(self._settings, run.repository)
        run_again = acts and any(_is_past(run, loss) for loss in held.losses)
        needless = [loss for loss in held.losses if loss.label in sated and self._is_needless(run, loss, acts)]
        if not deserted and not run_again and not needless:
            return
        jobs = await self._ports.workflows.jobs(run.repository, run.run, run.attempt)
        for loss in needless:
            job = loss.last(jobs) if loss.activity is None else None
            if job is None or job.conclusion is Conclusion.SUCCESS or loss.outlived(job):
                await self._rescue.settle([loss], sated[loss.label])
        if run_again:
            asked_for = [label for job in jobs if job.waits for label in job.labels if _is_label_of(run, label)]
            deserted |= dict.fromkeys(label for label in asked_for if label not in held.served)
        await self._replace(run, list(deserted), jobs, held)

    def _is_needless(self, run: WorkflowRun, loss: Loss, acts: bool) -> bool:
        """Whether nobody has to see to it any more, unless GitHub names a job that it had: there was none that we heard
        of, and GitHub would show it by now; or its attempt was run again, and what follows is not for us to care about.
        """
        if acts and _is_past(run, loss):
            return False
        if loss.activity is not None:
            return _is_past(run, loss)
        # One whose machine may live would count among its label's runners again.
        return self._rescue.is_gone(loss) and not self._rescue.is_fresh(loss)

    async def restore(self, run: WorkflowRun, labels: Sequence[str]) -> None:
        """Provide runners for labels that were released while somebody ran the run again: at least one, so that we
        hold the run again and see what else it needs."""
        jobs = await self._ports.workflows.jobs(run.repository, run.run, run.attempt)
        await self._replace(run, labels, jobs, Held(run.run), least=1)

    async def _replace(
        self,
        run: WorkflowRun,
        labels: Sequence[str],
        jobs: Sequence[WorkflowJob],
        held: Held,
        least: int = 0,
    ) -> None:
        """Provide runners for those of these labels that jobs wait for."""
        for label in labels:
            waiting = [job for job in jobs if job.waits and _asks_for(job, label)]
            if not waiting and not least:
                continue
            pause, time = self._pauses.get(label), asyncio.get_running_loop().time()
            if pause is not None and time < pause.until:
                refusal: Refusal | None = pause.refusal
            else:
                refusal = await self._provide(run, label, len(waiting), least)
            if refusal is not None and waiting:
                await self._fail(run, label, jobs, held, refusal)

    async def _provide(self, run: WorkflowRun, label: str, waiting: int, least: int) -> Refusal | None:
        count = max(min(waiting, await self._runners.asked(label)), least)
        refusal = await self._runners.provide(label, count) if count else None
        time = asyncio.get_running_loop().time()
        self._pauses = {name: pause for name, pause in self._pauses.items() if pause.until > time - FORGOTTEN}
        before = self._pauses.pop(label, None)
        if refusal is not None:
            seconds = min(before.seconds * 2, LONGEST_PAUSE) if before is not None else FIRST_PAUSE
            self._pauses[label] = Pause(refusal, seconds, time + seconds)
        elif count:
            self._voice.tell(f"run {run.run} of {run.repository}: label {label} had no runners, and has {count}")
        return refusal

    async def _fail(
        self, run: WorkflowRun, label: str, jobs: Sequence[WorkflowJob], held: Held, refusal: Refusal
    ) -> None:
        dead = [loss for loss in held.losses if self._rescue.is_gone(loss)]
        at_work = [job for job in jobs if _goes_on(run, job, held) and not any(loss.had(job) for loss in dead)]
        said = f"{named(run)}: jobs wait for label {label}, and no runner comes: {refusal.reason}"
        if not opted_in(self._settings, run.repository):
            self._voice.alarm(f"{said}; the repository is not in github.rescue, so it is left waiting")
        elif at_work:
            self._voice.alarm(f"{said}; it is cancelled if that is still so when its other jobs have ended")
        else:
            await self._ports.workflows.cancel(run.repository, run.run)
            self._voice.alarm(f"{said}; it is cancelled")
            # Whoever wants it again will say so: to run again by ourselves what we have cancelled would surprise.
            await self._rescue.settle(held.losses, f"run {run.run} was cancelled: label {label} gets no runners")


def _is_past(run: WorkflowRun, loss: Loss) -> bool:
    """Whether it may be of an attempt that was run again. Of one that named no job nobody knows better."""
    return (loss.activity.attempt if loss.activity is not None else 1) < run.attempt


def _goes_on(run: WorkflowRun, job: WorkflowJob, held: Held) -> bool:
    """Whether it runs, or is about to on a runner that is none of ours, or lives."""
    if not job.waits:
        return not job.completed
    ours = any(_is_label_of(run, label) for label in job.labels)
    return not ours or any(_asks_for(job, label) for label in held.served)


def _asks_for(job: WorkflowJob, label: str) -> bool:
    return label.casefold() in map(str.casefold, job.labels)


def _is_label_of(run: WorkflowRun, text: str) -> bool:
    label = labels.parse(text)
    return label is not None and label.run == run.run
