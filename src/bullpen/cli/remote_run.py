"""`bullpen run` on a server: provision, submit, follow, replace what is lost, release.

The server sweeps leases and gives lost jobs to others by itself. If this process is killed, `bullpen release` gives
everything back; without it, the runners go back at the run's maximum runtime.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime

from bullpen.cli.remote_pool import RemotePool
from bullpen.client import AsyncClient
from bullpen.client.transport import ServerAway
from bullpen.errors import BullpenError, FailureCause, Unavailable
from bullpen.jobs.log_tail import JobLogTail
from bullpen.jobs.request import JobRequest
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import RUNNING
from bullpen.model.job import FINISHED, QUEUED, Durations, Job, began_at
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.ticket import parse_time
from bullpen.provision.outcome import Discarded, Outcome, Request
from bullpen.release import ReleaseOutcome
from bullpen.run import RunOptions, RunOutcome, Write
from bullpen.run.replacement import KeptJobs, Replacements
from bullpen.run.watch import FollowedJob, failed_by_itself, first_failed, progress_of
from bullpen.schema.base import WorkState
from bullpen.schema.job import JobAnswer
from bullpen.schema.provision import ProvisionAnswer

POLL_EVERY = 0.5  # seconds; output is shown this much later at most
COUNT_EVERY = 2.0  # seconds between two counts of the runners
SETTLE = 15.0  # seconds that cancelled jobs have to end before the runners are released


async def run_remotely(
    pool: RemotePool,
    client: AsyncClient,
    request: Request,
    wanted: Sequence[JobRequest],
    *,
    stop: asyncio.Event,
    options: RunOptions,
    tell: Tell,
    write: Write,
) -> RunOutcome:
    """Serve a whole run, as `bullpen.run.run` does on a home."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await pool.provision(request, stop=stop, tell=tell)
    outcome = outcome_of(answer)
    if answer.state is not WorkState.SUCCEEDED:
        return RunOutcome(outcome, interrupted=outcome.interrupted)
    watch = _RemoteWatch(pool, client, request, options, tell, write)
    try:
        await watch.submit(wanted)
        await watch.see_through(stop)
    except Exception as exc:
        await watch.give_back_after(exc)
        raise
    tell(ProgressReport(WorkPhase.RELEASE, "giving the runners back"))
    # Its own stop: a user who interrupts the run wants it to end, not to leave its runners behind.
    released = await pool.release(request.run_id, stop=asyncio.Event(), tell=tell)
    found = [await client.job(one.job.id) for one in watch.followed]
    earlier = {one.job.id: one.earlier for one in watch.followed if one.earlier}
    told = [*found, *[await client.job(job.id) for tries in earlier.values() for job in tries]]
    return RunOutcome(
        outcome,
        tuple(map(job_of_answer, found)),
        ReleaseOutcome(
            released.run_id,
            released.offered,
            released.terminated,
            released.pending,
            released.duration_seconds,
            released.busy,
        ),
        interrupted=stop.is_set(),
        earlier=earlier,
        started={
            one.id: parse_time(at) for one in told if (at := began_at((line.step, line.at) for line in one.story))
        },
        spent={
            one.id: Durations(one.waited_seconds, one.ran_seconds) for one in told if one.waited_seconds is not None
        },
        failed_first=watch.failed_first,
        seconds=loop.time() - began,
    )


@dataclass(frozen=True, slots=True)
class ServedRunners:
    """The runners of a run on a server."""

    pool: RemotePool
    client: AsyncClient
    request: Request

    async def lasting(self) -> list[str]:
        held = [one async for one in self.client.instances(run_id=self.request.run_id)]
        return [one.id for one in held if one.state is RUNNING and not one.silent and one.leaving_at is None]

    async def top_up(self, count: int, stop: asyncio.Event) -> str:
        """One whose server was restarted is asked for again."""
        asked = replace(self.request, count=count, spares_silent=True)
        try:
            answer = await self.pool.provision(asked, stop=stop, tell=lambda report: None)
        except Unavailable as exc:
            return str(exc)
        missed = len(answer.instances) < answer.requested
        return (answer.reason or "no more could be launched") if missed else ""


@dataclass(slots=True)
class _RemoteWatch:
    """The jobs of a run on a server, until all have ended."""

    _pool: RemotePool
    _client: AsyncClient
    _request: Request
    _options: RunOptions
    _tell: Tell
    _write: Write
    followed: list[FollowedJob] = field(default_factory=list)
    failed_first: Job | None = None
    _used: set[str] = field(default_factory=set)  # runners that have had a job
    _began: float = field(init=False)
    _replacements: Replacements = field(init=False)
    _kept: KeptJobs = field(init=False)

    def __post_init__(self) -> None:
        self._began = asyncio.get_running_loop().time()
        runners = ServedRunners(self._pool, self._client, self._request)
        count, one_each = self._request.count, self._options.one_each
        self._replacements = Replacements(runners, count, self._tell, one_each, COUNT_EVERY)
        self._kept = KeptJobs(self._replacements)

    async def submit(self, wanted: Sequence[JobRequest]) -> None:
        for one in wanted:
            self.followed.append(await self._tried(one))

    async def see_through(self, stop: asyncio.Event) -> None:
        """Follow the jobs to their end. After `stop`, or a failure that counts, those that are left are cancelled."""
        try:
            while not await self._all_ended() and not stop.is_set() and self.failed_first is None:
                await self._replace_lost()
                await _wait(stop, POLL_EVERY)
            if stop.is_set() or self.failed_first is not None:
                await self._cancel()
        finally:
            await self._replacements.close()

    async def give_back_after(self, error: Exception) -> None:
        """Release the runners if the server still answers; if not, the error says how to. One that is away was waited
        for already."""
        try:
            if not isinstance(error, ServerAway):
                await self._client.begin_release(self._request.run_id)
                return
        except BullpenError:
            if not isinstance(error, Unavailable):
                return
        error.remedy = f"Give the runners back with `bullpen release --run-id {self._request.run_id}`."

    async def _tried(self, wanted: JobRequest, avoid: str = "") -> FollowedJob:
        (job,) = await self._pool.submit([wanted], avoid)
        return FollowedJob(wanted, job_of_answer(job), JobLogTail(self._client.job_log, job.id))

    async def _all_ended(self, *, tries_again: bool = True) -> bool:
        """Read the jobs, pass on what they printed, and submit again what failed and may be tried again."""
        found = {one.id: one async for one in self._client.jobs(self._request.run_id)}
        for one in self.followed:
            if one.job.state is FINISHED or one.job.id not in found:
                continue
            one.job = job_of_answer(found[one.job.id])
            self._used.add(one.job.instance_id)
            for line in await one.log.new_lines(one.job):
                self._write(one.job, line)
        if tries_again:
            await self._try_failed_again()
            if self._options.fail_fast and self.failed_first is None:
                ended = [one.job for one in self.followed if one.job.state is FINISHED and not self._may_try(one)]
                self.failed_first = first_failed(ended)
        jobs = [one.job for one in self.followed]
        self._tell(progress_of(jobs, asyncio.get_running_loop().time() - self._began))
        all_ended = all(job.state is FINISHED for job in jobs)
        return all_ended and not (tries_again and any(map(self._may_try, self.followed)))

    async def _try_failed_again(self) -> None:
        """As `bullpen.run.watch` does on a home: one job on each runner comes first."""
        waits = any(one.job.state is QUEUED and not (one.earlier or one.job.losses) for one in self.followed)
        if not (self._options.one_each and waits):
            for one in self.followed:
                if self._may_try(one):
                    await self._try_again(one)

    def _may_try(self, one: FollowedJob) -> bool:
        return failed_by_itself(one.job) and len(one.earlier) < self._options.retries

    async def _try_again(self, one: FollowedJob) -> None:
        left = self._options.retries - len(one.earlier)
        self._write(one.job, f"[{one.job.reason or one.job.result.value}; trying again, {left} left]")
        again = await self._tried(one.request, one.job.worker if self._has_other_free_runner(one.job) else "")
        one.earlier, one.job, one.log = (*one.earlier, one.job), again.job, again.log

    def _has_other_free_runner(self, failed: Job) -> bool:
        """True if another runner would take the job now: it should not wait for one that works on another job."""
        jobs = [one.job for one in self.followed]
        if any(job.state is QUEUED for job in jobs):
            return False
        at_work = {job.instance_id for job in jobs if job.state is JOB_RUNNING}
        return bool(self._used - at_work - {failed.instance_id, ""})

    async def _replace_lost(self) -> None:
        time = asyncio.get_running_loop().time()
        later = {one.job.id for one in self.followed if one.earlier}
        await self._replacements.replace_lost(time, [one.job for one in self.followed], self._used, later)
        if self._options.one_each:
            first = [one.job for one in self.followed if not one.earlier]
            for job, seconds in self._kept.to_postpone(time, first):
                await self._client.postpone_job(job.id, seconds)

    async def _cancel(self) -> None:
        self._tell(ProgressReport(WorkPhase.CANCEL, "cancelling the jobs"))
        for one in self.followed:
            if one.job.state is not FINISHED:
                await self._client.cancel_job(one.job.id)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + SETTLE
        while not await self._all_ended(tries_again=False) and loop.time() < give_up:
            await _wait(asyncio.Event(), POLL_EVERY)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def outcome_of(answer: ProvisionAnswer) -> Outcome:
    """Without the members, whose records only the server has."""
    return Outcome(
        run_id=answer.run_id,
        provision_id=answer.provision_id,
        requested=answer.requested,
        discarded=tuple(Discarded(one.instance_id, one.origin, one.reason, one.outcome) for one in answer.discarded),
        collisions=answer.collisions,
        duration=answer.duration_seconds,
        timings=answer.timings,
        reason=answer.reason,
        remedy=answer.remedy,
        interrupted=answer.cause is FailureCause.INTERRUPTED,
        unavailable=answer.cause is FailureCause.UNAVAILABLE,
        cause=answer.cause,
    )


def job_of_answer(answer: JobAnswer) -> Job:
    """The record, as far as a server shows it."""

    def time(text: str | None) -> datetime | None:
        return parse_time(text) if text else None

    shared = {name: getattr(answer, name) for name in answer.__struct_fields__ if name in Job.__dataclass_fields__}
    times = {"queued_at": time(answer.queued_at), "finished_at": time(answer.finished_at)}
    return Job(**shared | times, version=0, timeout=answer.timeout_seconds)
