"""Follows the jobs of a run until all have ended: passes on what they print, tries again, and cancels."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Self

from bullpen import jobs
from bullpen.config import Settings
from bullpen.jobs.log_tail import JobLogTail
from bullpen.jobs.request import JobRequest
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness import LivenessController
from bullpen.model.instance import Instance
from bullpen.model.job import FINISHED, QUEUED, RUNNING, Job, Result
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.pool import lifecycle
from bullpen.ports import Ports
from bullpen.provision import Request
from bullpen.run.replacement import KeptJobs, PoolRunners, Replacements, runners_of

BY = "run"
POLL_EVERY = 0.25  # seconds; output is shown this much later at most
STARTS = 10  # workers of one instance that are read: each start of its agent makes one
SWEEP_EVERY = 0.5  # seconds; at least four times in a confirm window, because a sweeper starts again after a gap

Write = Callable[[Job, str], None]
"""Takes a line that a job printed."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`one_each`: one job on each runner; a lost job waits for the replacement of its runner. Otherwise the jobs are a
    queue. `retries`: how often a job that failed by itself runs again. `fail_fast`: the first job that has failed for
    good cancels all others."""

    one_each: bool = False
    retries: int = 0
    fail_fast: bool = False


def failed_by_itself(job: Job) -> bool:
    """True for a job that another try may help."""
    return job.result is Result.TIMED_OUT or (job.result is Result.FAILED and job.exit_code is not None)


def first_failed(ended: Sequence[Job]) -> Job | None:
    failed = [job for job in ended if job.result is not Result.SUCCEEDED]
    return min(failed, key=lambda job: (job.finished_at is None, job.finished_at, job.index), default=None)


def progress_of(jobs: Sequence[Job], elapsed: float) -> ProgressReport:
    """How far the jobs of a run are, `elapsed` seconds after they were submitted."""
    states = [job.state for job in jobs]
    ended, total = states.count(FINISHED), len(states)
    text = f"{ended} of {total} {'job' if total == 1 else 'jobs'} ended"
    if ended < total:
        text += f", {states.count(RUNNING)} running, {states.count(QUEUED)} queued; {elapsed:.0f} s"
    return ProgressReport(WorkPhase.JOBS, text, ended, total)


@dataclass(slots=True)
class FollowedJob:
    """A wanted job: its current try, and those that failed before."""

    request: JobRequest
    job: Job
    log: JobLogTail
    earlier: tuple[Job, ...] = ()


@dataclass(slots=True)
class Watch:
    """The jobs of a run, until all have ended."""

    _ports: Ports
    _settings: Settings
    _options: RunOptions
    _tell: Tell
    _write: Write
    _followed: list[FollowedJob]
    _replacements: Replacements
    _kept: KeptJobs
    _liveness: LivenessController
    _began: float
    _sweep_at: float = 0.0
    _used: dict[str, None] = field(default_factory=dict)
    failed_first: Job | None = None

    @classmethod
    async def begin(
        cls,
        ports: Ports,
        settings: Settings,
        request: Request,
        wanted: Sequence[JobRequest],
        options: RunOptions,
        tell: Tell,
        write: Write,
    ) -> Self:
        submitted = await jobs.submit(ports, wanted, by=BY)
        read = ports.logs.read
        followed = [FollowedJob(one, job, JobLogTail(read, job.id)) for one, job in zip(wanted, submitted, strict=True)]
        runners = PoolRunners(ports, settings, request)
        replacements = Replacements(runners, request.count, tell, options.one_each)
        began = asyncio.get_running_loop().time()
        liveness = LivenessController(ports, settings)
        kept = KeptJobs(replacements)
        return cls(ports, settings, options, tell, write, followed, replacements, kept, liveness, began)

    @property
    def jobs(self) -> list[Job]:
        """The current try of each job."""
        return [one.job for one in self._followed]

    @property
    def earlier(self) -> dict[str, tuple[Job, ...]]:
        """The tries that failed before, by the id of the current one."""
        return {one.job.id: one.earlier for one in self._followed if one.earlier}

    async def see_through(self, stop: asyncio.Event) -> None:
        """Follow the jobs to their end. After `stop`, or a failure that counts, those that are left are cancelled, and
        have `timings.settle` to end."""
        try:
            while not await self._all_ended() and not stop.is_set() and self.failed_first is None:
                await self._do_duties()
                await self._ports.signals.wait(POLL_EVERY)
            if stop.is_set():
                await self._cancel("the run was interrupted")
            elif self.failed_first is not None:
                failed = self.failed_first.name or self.failed_first.id
                await self._cancel(f"{failed} failed, and the run fails fast")
        finally:
            await self._replacements.close()

    async def _all_ended(self, *, tries_again: bool = True) -> bool:
        """Read the jobs, pass on what they printed, and submit again what failed and may be tried again."""
        found = await self._ports.jobs.jobs([one.job.id for one in self._followed if one.job.state is not FINISHED])
        for one in self._followed:
            if (job := found.get(one.job.id)) is None:
                continue
            one.job = job
            if job.instance_id:
                self._used[job.instance_id] = None
            for line in await one.log.new_lines(job):
                self._write(job, line)
        if tries_again:
            await self._try_again()
            self.failed_first = self.failed_first or self._first_failure()
        self._tell(progress_of(self.jobs, asyncio.get_running_loop().time() - self._began))
        return all(one.job.state is FINISHED and not (tries_again and self._may_try(one)) for one in self._followed)

    async def _try_again(self) -> None:
        # One job on each runner comes first: another try would be a second one on some runner.
        waits = any(one.job.state is QUEUED and not (one.earlier or one.job.losses) for one in self._followed)
        if not (self._options.one_each and waits):
            for one in self._followed:
                if self._may_try(one):
                    await self._submit_again(one)

    def _may_try(self, one: FollowedJob) -> bool:
        """True if it failed by itself and has tries left. Where it was cancelled, or no runner could finish it, another
        try would not help."""
        return failed_by_itself(one.job) and len(one.earlier) < self._options.retries

    async def _submit_again(self, one: FollowedJob) -> None:
        """As a new job: nothing of the failed one changes, and if this process dies here, no try is left over."""
        left = self._options.retries - len(one.earlier)
        self._write(one.job, f"[{one.job.reason or one.job.result.value}; trying again, {left} left]")
        avoid = one.job.worker if self._has_other_free_runner(one.job) else ""
        (again,) = await jobs.submit(self._ports, [one.request], by=BY, avoid=avoid)
        one.earlier = (*one.earlier, one.job)
        one.job, one.log = again, JobLogTail(self._ports.logs.read, again.id)

    def _has_other_free_runner(self, failed: Job) -> bool:
        """True if another runner would take the job now: it should not wait for one that works on another job."""
        if any(job.state is QUEUED for job in self.jobs):
            return False
        at_work = {job.instance_id for job in self.jobs if job.state is RUNNING}
        return any(id not in at_work and id != failed.instance_id for id in self._used)

    def _first_failure(self) -> Job | None:
        if not self._options.fail_fast:
            return None
        ended = [one.job for one in self._followed if one.job.state is FINISHED and not self._may_try(one)]
        return first_failed(ended)

    async def _do_duties(self) -> None:
        time = asyncio.get_running_loop().time()
        if time >= self._sweep_at:
            self._sweep_at = time + min(SWEEP_EVERY, self._settings.liveness.confirm / 4)
            swept = await self._liveness.run_once()
            for key in swept.sweep.lost:
                self._tell(ProgressReport(WorkPhase.LOSE, f"{key} is lost: its jobs go to others", about=key))
            await self._end_unable()
            await self._replacements.replace_lost(time, self.jobs, self._used, self.earlier)
        if self._options.one_each:
            await self._keep_for_replacements(time)

    async def _end_unable(self) -> None:
        """End runners that take no job with files, so that others replace them: their agents are older than this."""
        if any(one.request.source or one.request.artifacts for one in self._followed):
            old = await _unable(self._ports, await runners_of(self._ports, self._followed[0].request.run_id))
            why = "its agent is of an earlier version, and cannot unpack the files of a project"
            await lifecycle.expire_and_terminate(self._ports, self._settings, old, why, by=BY)

    async def _keep_for_replacements(self, time: float) -> None:
        first = [one.job for one in self._followed if not one.earlier]
        for job, seconds in self._kept.to_postpone(time, first):
            await jobs.postpone(self._ports, job.id, seconds, by=BY)

    async def _cancel(self, why: str) -> None:
        self._tell(ProgressReport(WorkPhase.CANCEL, f"cancelling the jobs: {why}"))
        for job in self.jobs:
            if job.state is not FINISHED:
                await jobs.cancel(self._ports, self._settings, job.id, by=BY, why=why)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._settings.timings.settle
        while not await self._all_ended(tries_again=False) and loop.time() < give_up:
            await self._ports.signals.wait(POLL_EVERY)


async def _unable(ports: Ports, runners: Sequence[Instance]) -> list[Instance]:
    """The runners whose agent is of an earlier version: it takes no job with a source or artifacts. One without any
    heartbeat so far is not among them."""
    found = []
    for runner in runners:
        listed = await ports.workers.listed(STARTS, after=f"{runner.id}/")
        workers = [one.id for one in listed if one.instance_id == runner.id]
        cards = await ports.workers.cards(workers)
        if cards and not any(card.handles_files for card in cards.values()):
            found.append(runner)
    return found
