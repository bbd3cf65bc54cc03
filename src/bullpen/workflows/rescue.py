"""Rescue: jobs that were lost with their runners are run again, once their whole run has completed.

GitHub marks a job of a dead runner as failed after about ten minutes, and allows no re-run while anything of the run is
in progress. Then all losses of this attempt are judged together:

    the attempt has moved on                   the run was re-run: nothing is left to do
    the job succeeded after all                nothing is left to do
    its runner is online, or was when the      it was not lost: it failed by itself
    job ended
    it was cancelled                           by a user; unless its machine had announced an interruption
    the threshold of its instance had passed   it was ended for that, and would be ended again
    their class is paused                      they wait for the resume
    it must not be repeated                    not opted in, too many attempts, an environment, other failures: it is
                                               left as it is, with an alarm
    otherwise                                  new runners first, because no other process provides them; then one
                                               request for all. Jobs of a scale set get theirs from the set

One lost job is re-run by itself. Several jobs, or one because of which others were cancelled, need GitHub's "re-run
failed jobs", which includes everything that failed or was cancelled. So that is requested only if nothing failed by
itself.

The attempt's number makes this happen once: a re-run raises it, and of two requests GitHub refuses the second. So no
loss is settled because Bullpen requested a re-run. It stands until the next attempt has completed, and until then every
job that waits for a label of the pool gets runners (replace_runners.py).
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from enum import StrEnum

from bullpen.config import Settings
from bullpen.errors import Conflict, PermissionDenied, Refused, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.lost_worker import LAG, LONG_AGO, WorkerLoss
from bullpen.model.times import later
from bullpen.ports import Conclusion, Ports, WorkflowJob, WorkflowRun
from bullpen.workflows.alerts import ReportCollector
from bullpen.workflows.holdings import RunHoldings
from bullpen.workflows.machine_state import MachineState, MachineStates
from bullpen.workflows.reprovision import Refusal, RunnerProvider
from bullpen.workflows.settle_losses import settle_losses

BY = "rescue"
CANCELLED = "cancelled"  # a run's conclusion


class RescueStatus(StrEnum):
    NOTHING = "nothing left to rescue"
    WAITS = "check again later"
    MOVED = "the run has moved on"


class LossVerdict(StrEnum):
    """What follows from a loss of a completed run."""

    RERUN = "rerun"  # a job was lost: it is run again, if that is allowed
    SETTLE = "settle"  # no job was lost: nothing is owed
    WAIT = "wait"  # not known yet


@dataclass(frozen=True, slots=True)
class LossJudgement:
    verdict: LossVerdict
    why: str = ""  # of SETTLE
    job: WorkflowJob | None = None  # of RERUN


WAIT = LossJudgement(LossVerdict.WAIT)


@dataclass(slots=True)
class Rescue:
    _ports: Ports
    _settings: Settings
    _machines: MachineStates
    _runners: RunnerProvider
    _report: ReportCollector
    _asked: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The attempt of each run whose re-run was requested, and when: GitHub may be slow to show the next one."""
    _behind: dict[tuple[str, int], float] = field(default_factory=dict)
    """Since when GitHub has shown jobs of a completed attempt as not completed."""

    async def rescue(self, run: WorkflowRun, held: RunHoldings) -> RescueStatus:
        """Judge all losses of a completed run, and run its lost jobs again."""
        losses = held.losses
        ahead = [loss for loss in losses if loss.activity is not None and loss.activity.attempt > run.attempt]
        if any(loss.is_fresh(self._ports.clock.now()) for loss in ahead):
            return RescueStatus.WAITS  # GitHub's answer is older than what the worker reported
        # The attempt never appeared: a worker can report anything.
        await self._settle(ahead, f"it named an attempt that run {run.run} never had")
        lost = [loss for loss in losses if loss not in ahead]
        if self._is_to_come(run):
            return RescueStatus.WAITS
        if not lost:
            return RescueStatus.NOTHING
        jobs = await self._ports.workflows.jobs(run.repository, run.run, run.attempt)
        if self._is_behind(run, jobs):
            return RescueStatus.WAITS
        past = [loss for loss in lost if _is_past(run, loss) and not loss.had_unheard(jobs)]
        await self._settle(past, _completed(run))
        lost = [loss for loss in lost if loss not in past]
        to_repeat: dict[int, WorkerLoss] = {}
        waits = False
        for loss in lost:
            judgement = self._judge(run, loss, jobs)
            if judgement.job is not None:
                to_repeat[judgement.job.id] = loss
            elif judgement.verdict is LossVerdict.WAIT:
                waits = True
            else:
                if loss.runner:
                    await self._remove(loss, loss.runner)
                await self._settle([loss], judgement.why)
        if waits:
            return RescueStatus.WAITS  # all lost jobs are run again together: each attempt allows one request
        return await self._repeat(run, held, jobs, to_repeat) if to_repeat else RescueStatus.NOTHING

    async def _settle(self, losses: Sequence[WorkerLoss], why: str) -> None:
        await settle_losses(self._ports, self._settings, losses, why, self._report, by=BY)

    def _judge(self, run: WorkflowRun, loss: WorkerLoss, jobs: Sequence[WorkflowJob]) -> LossJudgement:
        job = loss.last(jobs)
        if job is None:
            return self._without_job(run, loss)
        if not job.completed:
            return _no_loss(f"{job.name} has no conclusion although its run completed")
        if job.conclusion is Conclusion.SUCCESS:
            return _no_loss(f"{job.name} succeeded")
        if loss.outlived(job):
            return _no_loss(f"{job.name} ended by itself: its runner was lost later")
        machine = self._machines.of(loss)
        if machine is MachineState.ONLINE:
            return _no_loss(f"{job.name} ended by itself: its runner is online")
        if machine is MachineState.UNKNOWN:
            return WAIT
        online_at = self._machines.seen_online(loss)
        leaves = loss.worker.leaving is not None
        if online_at is not None and not leaves and (job.completed_at or LONG_AGO) <= later(online_at, LAG):
            return _no_loss(f"{job.name} ended by itself: its runner was online")
        if job.conclusion is Conclusion.CANCELLED and not leaves:
            # GitHub marks a job of a machine that died without notice as failed: a user cancelled this one.
            return _no_loss(f"{job.name} was cancelled")
        if loss.overran:
            return _no_loss(f"{job.name} was ended at the maximum runtime of its runner, and is not run again")
        return LossJudgement(LossVerdict.RERUN, job=job)

    def _without_job(self, run: WorkflowRun, loss: WorkerLoss) -> LossJudgement:
        """GitHub lists no job on its runner."""
        if loss.activity is None:
            return _no_loss(_completed(run))
        if loss.is_fresh(self._ports.clock.now()):
            return WAIT
        # Its job had begun when it sent its last beat: by now GitHub would list it.
        return _no_loss(f"run {run.run} has completed, and lists no job on its runner")

    def _is_behind(self, run: WorkflowRun, jobs: Sequence[WorkflowJob]) -> bool:
        """True if the list of jobs is older than the run's end. Not for ever: its runners must go back."""
        if all(job.completed for job in jobs):
            return False
        time = asyncio.get_running_loop().time()
        self._behind = {attempt: since for attempt, since in self._behind.items() if since > time - 10 * LAG}
        return time - self._behind.setdefault((run.run, run.attempt), time) < LAG

    def _is_to_come(self, run: WorkflowRun) -> bool:
        """True if a re-run was requested, and GitHub does not show it yet. Not for ever: of two requests, GitHub
        accepts one."""
        attempt, asked_at = self._asked.get(run.run, (0, 0.0))
        if attempt < run.attempt:
            self._asked.pop(run.run, None)
            return False
        if asyncio.get_running_loop().time() - asked_at < LAG:
            return True
        del self._asked[run.run]
        self._report.alarm("requested re-run not shown by GitHub; trying again", **of_run(run))
        return False

    async def _remove(self, loss: WorkerLoss, runner: str) -> None:
        """Deregister its runner, now that its job has ended. If that fails, refresh does it later."""
        if self._machines.is_gone(loss):
            with suppress(Refused, Unavailable):
                await self._ports.ci.remove(runner)

    async def _repeat(
        self, run: WorkflowRun, held: RunHoldings, jobs: Sequence[WorkflowJob], lost: dict[int, WorkerLoss]
    ) -> RescueStatus:
        again = [job for job in jobs if job.id in lost]
        names = _names(again)
        for job in again:
            await self._remove(lost[job.id], job.runner)
        refusal = await self._objection(run, jobs, lost)
        if not refusal:
            await self._runners.give_back_used(held.labels)
            refused = await self._provide(list(lost.values()))
            if refused is not None and refused.is_paused:
                self._report.alarm("lost jobs wait for the resume", **of_run(run), jobs=names, reason=refused.reason)
                return RescueStatus.WAITS
            refusal = refused.reason if refused is not None else ""
        if not refusal:
            now = await self._ports.workflows.run(run.repository, run.run)
            if (now.attempt, now.completed) != (run.attempt, True):
                return RescueStatus.MOVED
            try:
                await self._rerun(run, jobs, list(lost))
            except Conflict:
                return RescueStatus.MOVED
            except Refused as exc:
                refusal = str(exc)
            else:
                self._asked[run.run] = run.attempt, asyncio.get_running_loop().time()
                self._report.note("lost jobs run again", **of_run(run), jobs=names)
                return RescueStatus.WAITS
        self._report.alarm("lost jobs not run again", **of_run(run), jobs=names, reason=refusal)
        await self._settle(list(lost.values()), f"not run again: {refusal}")
        return RescueStatus.NOTHING

    async def _rerun(self, run: WorkflowRun, jobs: Sequence[WorkflowJob], lost: list[int]) -> None:
        if len(lost) == 1 and not _cancelled_others(run, [job for job in jobs if job.id not in lost]):
            await self._ports.workflows.rerun_job(run.repository, lost[0])
        else:
            await self._ports.workflows.rerun_failed(run.repository, run.run)

    async def _objection(self, run: WorkflowRun, jobs: Sequence[WorkflowJob], lost: dict[int, WorkerLoss]) -> str:
        """Why the lost jobs must not be run again; empty if they may be."""
        rules = self._settings.github
        if not opted_in(self._settings, run.repository):
            return "the repository is not in github.rescue"
        if run.attempt > rules.rescue_attempts:
            return f"attempt {run.attempt} is beyond github.rescue-attempts ({rules.rescue_attempts})"
        others = [job for job in jobs if job.id not in lost and job.conclusion is Conclusion.FAILURE]
        if len(lost) > 1 and others:
            return f"they could only be run again together with jobs that failed by themselves: {_names(others)}"
        try:
            deploying = await self._ports.workflows.deploying(run, list(jobs))
        except PermissionDenied as exc:
            return f"cannot check whether they have an environment: {exc}"
        # GitHub does not show which job needs which, and jobs that need a lost one are run again with it.
        if bound := [job for job in jobs if job.id in deploying]:
            return f"deployments are never repeated: {_names(bound)} have an environment"
        return ""

    async def _provide(self, lost: Sequence[WorkerLoss]) -> Refusal | None:
        """Why the labels of the lost jobs get no runners; None if they have them."""
        for label, count in Counter(loss.label for loss in lost).items():
            refusal = await self._runners.provide(label, count)
            if refusal is not None:
                return replace(refusal, reason=f"label {label} gets no runners: {refusal.reason}")
        return None


def opted_in(settings: Settings, repository: str) -> bool:
    """True if the settings allow that lost jobs of a repository are run again."""
    return any(name == "*" or name.casefold() == repository.casefold() for name in settings.github.rescue)


def of_run(run: WorkflowRun) -> dict[str, object]:
    """The fields that name it. With its attempt: an alarm about the next attempt is another alarm."""
    return {"run": run.run, "repository": run.repository, "attempt": run.attempt}


def _no_loss(why: str) -> LossJudgement:
    return LossJudgement(LossVerdict.SETTLE, why)


def _is_past(run: WorkflowRun, loss: WorkerLoss) -> bool:
    return loss.activity is not None and loss.activity.attempt < run.attempt


def _cancelled_others(run: WorkflowRun, others: Sequence[WorkflowJob]) -> bool:
    """True if jobs were cancelled because of the lost ones. Of a run that a user cancelled GitHub says so; and if
    another job failed by itself, they may have been cancelled because of that one."""
    ends = [job.conclusion for job in others]
    return run.conclusion != CANCELLED and Conclusion.CANCELLED in ends and Conclusion.FAILURE not in ends


def _completed(run: WorkflowRun) -> str:
    return f"run {run.run} has completed, in attempt {run.attempt}"


def _names(jobs: Sequence[WorkflowJob]) -> str:
    return ", ".join(sorted(job.name for job in jobs))
