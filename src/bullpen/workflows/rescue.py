"""Rescue: jobs that were lost with their runners are run again, once their whole run has completed.

GitHub takes a job of a dead runner for failed after about ten minutes, and lets nothing be run again while anything of
the run still goes on. Then, of all losses of this attempt together:

    the attempt has moved on              somebody ran it again: nothing is left to do
    the job succeeded after all           so
    its runner is online, or was when     it was not lost: it failed by itself
    the job ended
    it was cancelled                      by somebody; unless its machine had said that it was leaving
    its machine's time was over           it was ended for that, and would be again
    it may not be repeated                not opted in, too often already, an environment, other failures beside it: it
                                          is left as it is, and that is said
    otherwise                             new runners first, for nobody else will provide them; then one request for all

One lost job is run again by itself. Several, or one because of which others were cancelled, need GitHub's "re-run
failed jobs", which takes everything along that failed or was cancelled: so that is asked for only if nothing failed by
itself.

The attempt's number is what makes this happen once: a re-run raises it, and of two who ask, GitHub refuses the second.
So nothing is settled on our own word: a loss stands until the attempt that follows has completed, and whatever of it
waits for a label of ours gets runners until then (stranded.py).
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum

from bullpen.config import Settings
from bullpen.errors import Conflict, PermissionDenied, Refused, Unavailable
from bullpen.liveness.debt import settle
from bullpen.liveness.lost_worker import LAG, LONG_AGO, Loss
from bullpen.pool.lifecycle import later
from bullpen.ports import Conclusion, Ports, WorkflowJob, WorkflowRun
from bullpen.workflows.alerts import Voice
from bullpen.workflows.holdings import Held
from bullpen.workflows.machine_state import Machine, Proof
from bullpen.workflows.reprovision import Runners

BY = "rescue"
CANCELLED = "cancelled"  # a run's conclusion


class Rescued(StrEnum):
    NOTHING = "nothing left to rescue"
    WAITS = "look again later"
    MOVED = "the run has moved on"


class Rescue:
    def __init__(self, ports: Ports, settings: Settings, proof: Proof, runners: Runners, voice: Voice) -> None:
        self._ports = ports
        self._settings = settings
        self._proof = proof
        self._runners = runners
        self._voice = voice
        self._asked: dict[str, tuple[int, float]] = {}
        """The attempt of each run that we had run again, and when: GitHub may be slow to show the next one."""
        self._behind: dict[tuple[str, int], float] = {}
        """Since when the jobs of a completed attempt have been shown as not completed."""

    async def rescue(self, run: WorkflowRun, held: Held) -> Rescued:
        """See to all losses of a completed run."""
        losses = held.losses
        ahead = [loss for loss in losses if loss.activity is not None and loss.activity.attempt > run.attempt]
        if any(self.is_fresh(loss) for loss in ahead):
            return Rescued.WAITS  # what GitHub shows is older than what we have heard
        # An attempt that never came: a runner's word is only as good as what runs there.
        await self.settle(ahead, f"it named an attempt that run {run.run} never had")
        lost = [loss for loss in losses if loss not in ahead]
        if self._is_to_come(run):
            return Rescued.WAITS
        if not lost:
            return Rescued.NOTHING
        jobs = await self._ports.workflows.jobs(run.repository, run.run, run.attempt)
        if self._is_behind(run, jobs):
            return Rescued.WAITS
        past = [loss for loss in lost if _is_past(run, loss) and not loss.had_unheard(jobs)]
        await self.settle(past, _over(run))
        lost = [loss for loss in lost if loss not in past]
        to_repeat: dict[int, Loss] = {}
        waits = False
        for loss in lost:
            verdict = self._judge(run, loss, jobs)
            if isinstance(verdict, WorkflowJob):
                to_repeat[verdict.id] = loss
            elif verdict:
                if loss.activity is not None:
                    await self._remove(loss, loss.activity.runner)
                await self.settle([loss], verdict)
            else:
                waits = True
        if waits:
            return Rescued.WAITS  # all lost jobs are run again together: there is one chance for each attempt
        return await self._repeat(run, held, jobs, to_repeat) if to_repeat else Rescued.NOTHING

    def is_fresh(self, loss: Loss) -> bool:
        """Whether GitHub may not show yet what its worker said last."""
        return later(loss.worker.beat_at or LONG_AGO, LAG) > self._ports.clock.now()

    async def settle(self, losses: Sequence[Loss], why: str) -> None:
        for loss in losses:
            if await settle(self._ports, loss.worker, why, by=BY):
                self._voice.tell(f"{loss.worker.id}, lost to run {loss.run}, is settled: {why}")

    def _judge(self, run: WorkflowRun, loss: Loss, jobs: Sequence[WorkflowJob]) -> WorkflowJob | str:
        """The job that was lost; or why none was; or nothing, as long as that is not known."""
        job = loss.last(jobs)
        if job is None:
            return self._missing(run, loss)
        if not job.completed:
            return f"{job.name} has no end, though its run has"
        if job.conclusion is Conclusion.SUCCESS:
            return f"{job.name} succeeded"
        if loss.outlived(job):
            return f"{job.name} ended by itself: its runner was lost later"
        machine = self._proof.of(loss)
        if machine is Machine.ONLINE:
            return f"{job.name} ended by itself: its runner is online"
        if machine is Machine.UNKNOWN:
            return ""
        online_at = self._proof.seen_online(loss)
        leaves = loss.worker.leaving is not None
        if online_at is not None and not leaves and (job.completed_at or LONG_AGO) <= later(online_at, LAG):
            return f"{job.name} ended by itself: its runner was online"
        if job.conclusion is Conclusion.CANCELLED and not leaves:
            # Of a machine that dies without notice GitHub says that it failed: this was somebody's wish.
            return f"{job.name} was cancelled"
        if loss.overran:
            return f"{job.name} was ended at the maximum runtime of its runner, and is not run again"
        return job

    def _missing(self, run: WorkflowRun, loss: Loss) -> str:
        """Why the list names no job on its runner; or nothing, as long as it may come to."""
        if loss.activity is None:
            return _over(run)
        # Its job had begun when it was heard last: by now every list would name it.
        return "" if self.is_fresh(loss) else f"run {run.run} has completed, and names no job on its runner"

    def _is_behind(self, run: WorkflowRun, jobs: Sequence[WorkflowJob]) -> bool:
        """Whether the list of jobs is older than the run's end. Not for ever: its runners are to go back."""
        if all(job.completed for job in jobs):
            return False
        time = asyncio.get_running_loop().time()
        self._behind = {attempt: since for attempt, since in self._behind.items() if since > time - 10 * LAG}
        return time - self._behind.setdefault((run.run, run.attempt), time) < LAG

    def is_gone(self, loss: Loss) -> bool:
        """Whether nobody can be at work there any more."""
        return self._proof.of(loss) is Machine.GONE

    def _is_to_come(self, run: WorkflowRun) -> bool:
        """Whether we have had it run again, and GitHub does not show that yet. Not for ever: asked twice, GitHub takes
        one."""
        attempt, asked_at = self._asked.get(run.run, (0, 0.0))
        if attempt < run.attempt:
            self._asked.pop(run.run, None)
            return False
        if asyncio.get_running_loop().time() - asked_at < LAG:
            return True
        del self._asked[run.run]
        self._voice.alarm(f"run {run.run} of {run.repository} was run again, but GitHub does not show it: once more")
        return False

    async def _remove(self, loss: Loss, runner: str) -> None:
        """Take its runner off GitHub's list, now that its job has ended; if that fails, reconciling does it later."""
        if self.is_gone(loss):
            with suppress(Refused, Unavailable):
                await self._ports.ci.remove(runner)

    async def _repeat(
        self, run: WorkflowRun, held: Held, jobs: Sequence[WorkflowJob], lost: dict[int, Loss]
    ) -> Rescued:
        again = [job for job in jobs if job.id in lost]
        names = _names(again)
        for job in again:
            await self._remove(lost[job.id], job.runner)
        refusal = await self._objection(run, jobs, lost)
        if not refusal:
            await self._runners.give_back_used(held.labels)
            refusal = await self._provide(list(lost.values()))
        if not refusal:
            now = await self._ports.workflows.run(run.repository, run.run)
            if (now.attempt, now.completed) != (run.attempt, True):
                return Rescued.MOVED
            try:
                await self._rerun(run, jobs, list(lost))
            except Conflict:
                return Rescued.MOVED
            except Refused as exc:
                refusal = str(exc)
            else:
                self._asked[run.run] = run.attempt, asyncio.get_running_loop().time()
                self._voice.tell(f"run {run.run} of {run.repository}: {names} lost with their runners, run again")
                return Rescued.WAITS
        self._voice.alarm(f"{named(run)}: {names} lost, and not run again: {refusal}")
        await self.settle(list(lost.values()), f"not run again: {refusal}")
        return Rescued.NOTHING

    async def _rerun(self, run: WorkflowRun, jobs: Sequence[WorkflowJob], lost: list[int]) -> None:
        if len(lost) == 1 and not _took_others_along(run, [job for job in jobs if job.id not in lost]):
            await self._ports.workflows.rerun_job(run.repository, lost[0])
        else:
            await self._ports.workflows.rerun_failed(run.repository, run.run)

    async def _objection(self, run: WorkflowRun, jobs: Sequence[WorkflowJob], lost: dict[int, Loss]) -> str:
        """Why the lost jobs must stay as they are; empty if nothing speaks against running them again."""
        rules = self._settings.github
        if not opted_in(self._settings, run.repository):
            return "the repository is not in github.rescue"
        if run.attempt > rules.rescue_attempts:
            return f"attempt {run.attempt} is beyond github.rescue-attempts ({rules.rescue_attempts})"
        others = [job for job in jobs if job.id not in lost and job.conclusion is Conclusion.FAILURE]
        if len(lost) > 1 and others:
            return f"they could only be run again together with what failed by itself: {_names(others)}"
        try:
            deploying = await self._ports.workflows.deploying(run, list(jobs))
        except PermissionDenied as exc:
            return f"whether they have an environment cannot be seen: {exc}"
        # GitHub does not tell which job needs which, and those that need a lost one are run again with it.
        if bound := [job for job in jobs if job.id in deploying]:
            return f"deployments are never repeated: {_names(bound)} have an environment"
        return ""

    async def _provide(self, lost: Sequence[Loss]) -> str:
        for label, count in Counter(loss.label for loss in lost).items():
            refusal = await self._runners.provide(label, count)
            if refusal is not None:
                return f"label {label} gets no runners: {refusal.reason}"
        return ""


def opted_in(settings: Settings, repository: str) -> bool:
    """Whether the owner of a repository wants its lost jobs run again."""
    return any(name == "*" or name.casefold() == repository.casefold() for name in settings.github.rescue)


def named(run: WorkflowRun) -> str:
    """With its attempt: what happens to the next one is no news of this."""
    return f"run {run.run} of {run.repository}, attempt {run.attempt}"


def _is_past(run: WorkflowRun, loss: Loss) -> bool:
    return loss.activity is not None and loss.activity.attempt < run.attempt


def _took_others_along(run: WorkflowRun, others: Sequence[WorkflowJob]) -> bool:
    """Whether jobs were cancelled because of those that were lost: of a run that somebody cancelled GitHub says so, and
    if another failed by itself, it may have been for that one."""
    ends = [job.conclusion for job in others]
    return run.conclusion != CANCELLED and Conclusion.CANCELLED in ends and Conclusion.FAILURE not in ends


def _over(run: WorkflowRun) -> str:
    return f"run {run.run} has completed, in attempt {run.attempt}"


def _names(jobs: Sequence[WorkflowJob]) -> str:
    return ", ".join(sorted(job.name for job in jobs))
