"""Replace runners: jobs wait for a label that has lost all its runners, and GitHub would let them wait for a day.

They get replacements, as many as wait and at most as many as were asked for. If none can be provisioned and the
repository is opted in, the run is cancelled once none of its other jobs is in progress: it fails visibly instead of
waiting in vain. Otherwise it raises an alarm, and the next pass tries again. While an operator has paused their class,
jobs wait, and no run is cancelled.

Where lost jobs were run again, the jobs that need them come later, and may wait for labels that were released in
between. These labels get their runners in the same way, until the run has completed once more.

Jobs of a scale set need no replacement: the process that listens to the set supplies runners. Only a job that was run
again may have to be pointed out to it, because GitHub does not announce such a job to a set without a runner.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.lost_worker import WorkerLoss
from bullpen.model import label as labels
from bullpen.model.scale_set import fits_set
from bullpen.ports import Conclusion, Ports, WorkflowJob, WorkflowRun
from bullpen.workflows.alerts import ReportCollector
from bullpen.workflows.holdings import RunHoldings
from bullpen.workflows.machine_state import MachineStates
from bullpen.workflows.reprovision import Refusal, RunnerProvider
from bullpen.workflows.rescue import BY, of_run, opted_in
from bullpen.workflows.settle_losses import settle_losses

WAIT_IN_VAIN = "jobs wait for a label that gets no runners"
FIRST_PAUSE = 60.0  # seconds until runners are requested again after a refusal
LONGEST_PAUSE = 300.0
FORGOTTEN = 3600.0  # seconds after which a refusal no longer lengthens the next pause


@dataclass(frozen=True, slots=True)
class RefusedLabel:
    """A label that got no runners. None are requested for it until `until`."""

    refusal: Refusal
    pause: float
    until: float


@dataclass(slots=True)
class RunnerReplacement:
    _ports: Ports
    _settings: Settings
    _machines: MachineStates
    _runners: RunnerProvider
    _report: ReportCollector
    _on_queued: Callable[[Sequence[str]], object] = lambda labels: None
    """Called with the label of a scale set for which a job waits that was run again."""
    _refused: dict[str, RefusedLabel] = field(default_factory=dict)
    """By label. Each try leaves a record: one at every pass, for a day, would be too many."""

    async def replace_lost(self, run: WorkflowRun, held: RunHoldings) -> None:
        """Replace the lost runners of a run in progress where jobs wait for them."""
        deserted: dict[str, None] = {}
        supplied: dict[str, str] = {}
        for label, set_name in dict.fromkeys((loss.label, loss.set_name) for loss in held.losses):
            if set_name is not None:
                supplied[label] = f"scale set {set_name} has other runners"
            elif label in held.served:  # an open provision proves nothing: its process may be dead
                supplied[label] = f"label {label} has other runners"
            elif not await self._runners.wanted(label):
                supplied[label] = f"label {label} was released"
            else:
                deserted[label] = None
        acts = opted_in(self._settings, run.repository)
        run_again = acts and any(_may_be_past(run, loss) for loss in held.losses)
        needless = [loss for loss in held.losses if loss.label in supplied and self._is_needless(run, loss, acts)]
        if not deserted and not run_again and not needless:
            return
        jobs = await self._ports.workflows.jobs(run.repository, run.run, run.attempt)
        for loss in needless:
            job = loss.last(jobs) if loss.activity is None else None
            if job is None or job.conclusion is Conclusion.SUCCESS or loss.outlived(job):
                why = supplied[loss.label]
                await settle_losses(self._ports, self._settings, [loss], why, self._report, by=BY)
        self._point_out([loss for loss in held.losses if _may_be_past(run, loss)], jobs)
        if run_again:
            asked_for = [label for job in jobs if job.waits for label in job.labels if _is_label_of(run, label)]
            deserted |= dict.fromkeys(label for label in asked_for if label not in held.served)
        await self._replace(run, list(deserted), jobs, held)

    def _point_out(self, losses: Sequence[WorkerLoss], jobs: Sequence[WorkflowJob]) -> None:
        """Report the scale sets whose lost jobs were run again and wait."""
        for name in dict.fromkeys(loss.set_name for loss in losses if loss.set_name is not None):
            if any(job.waits and fits_set(job.labels, name) for job in jobs):
                self._on_queued([name])

    def _is_needless(self, run: WorkflowRun, loss: WorkerLoss, acts: bool) -> bool:
        """True if nothing is owed for it, unless GitHub lists a job on its runner. Either it reported no job, and
        GitHub would list one by now; or its attempt was re-run, and the repository is not opted in."""
        if acts and _may_be_past(run, loss):
            return False
        if loss.activity is not None:
            return _may_be_past(run, loss)
        # If its machine may be alive, it would count among its label's runners again.
        return self._machines.is_gone(loss) and not loss.is_fresh(self._ports.clock.now())

    async def restore(self, run: WorkflowRun, labels: Sequence[str]) -> None:
        """Provide runners for labels that were released while the run was re-run: at least one each, so that the pool
        holds the run again and the next pass sees what else it needs."""
        jobs = await self._ports.workflows.jobs(run.repository, run.run, run.attempt)
        await self._replace(run, labels, jobs, RunHoldings(run.run), least=1)

    async def _replace(
        self, run: WorkflowRun, labels: Sequence[str], jobs: Sequence[WorkflowJob], held: RunHoldings, least: int = 0
    ) -> None:
        """Provide runners for the labels that jobs wait for."""
        for label in labels:
            waiting = [job for job in jobs if job.waits and _asks_for(job, label)]
            if not waiting and not least:
                continue
            refused, time = self._refused.get(label), asyncio.get_running_loop().time()
            if refused is not None and time < refused.until:
                refusal: Refusal | None = refused.refusal
            else:
                refusal = await self._provide(run, label, len(waiting), least)
            if refusal is not None and waiting:
                await self._fail(run, label, jobs, held, refusal)

    async def _provide(self, run: WorkflowRun, label: str, waiting: int, least: int) -> Refusal | None:
        count = max(min(waiting, await self._runners.asked(label)), least)
        refusal = await self._runners.provide(label, count) if count else None
        time = asyncio.get_running_loop().time()
        self._refused = {name: one for name, one in self._refused.items() if one.until > time - FORGOTTEN}
        before = self._refused.pop(label, None)
        if refusal is not None and not refusal.is_paused:
            pause = min(before.pause * 2, LONGEST_PAUSE) if before is not None else FIRST_PAUSE
            self._refused[label] = RefusedLabel(refusal, pause, time + pause)
        elif count and refusal is None:
            self._report.note("lost runners replaced", **of_run(run), label=label, runners=count)
        return refusal

    async def _fail(
        self, run: WorkflowRun, label: str, jobs: Sequence[WorkflowJob], held: RunHoldings, refusal: Refusal
    ) -> None:
        dead = [loss for loss in held.losses if self._machines.is_gone(loss)]
        in_progress = [job for job in jobs if _goes_on(run, job, held) and not any(loss.had(job) for loss in dead)]
        opted = opted_in(self._settings, run.repository) and not refusal.is_paused
        effect = "they wait: the repository is not in github.rescue"
        if refusal.is_paused:
            effect = "they wait for the resume"
        elif opted and in_progress:
            effect = "the run is cancelled if that is still so when its other jobs have ended"
        elif opted:
            await self._ports.workflows.cancel(run.repository, run.run)
            effect = "the run is cancelled"
        self._report.alarm(WAIT_IN_VAIN, **of_run(run), label=label, reason=refusal.reason, effect=effect)
        if opted and not in_progress:
            # Settled, so that Bullpen does not re-run what it has cancelled. A user can re-run it.
            why = f"run {run.run} was cancelled: label {label} gets no runners"
            await settle_losses(self._ports, self._settings, held.losses, why, self._report, by=BY, also_busy=True)


def _may_be_past(run: WorkflowRun, loss: WorkerLoss) -> bool:
    """True if it may belong to an attempt that was re-run. A worker that reported no job may belong to the first."""
    return (loss.activity.attempt if loss.activity is not None else 1) < run.attempt


def _goes_on(run: WorkflowRun, job: WorkflowJob, held: RunHoldings) -> bool:
    """True if it is in progress, or waits for a runner outside the pool or for a label that is served."""
    if not job.waits:
        return not job.completed
    in_pool = any(_is_label_of(run, label) for label in job.labels)
    return not in_pool or any(_asks_for(job, label) for label in held.served)


def _asks_for(job: WorkflowJob, label: str) -> bool:
    return label.casefold() in map(str.casefold, job.labels)


def _is_label_of(run: WorkflowRun, text: str) -> bool:
    label = labels.parse(text)
    return label is not None and label.run == run.run
