"""Run: provision runners, run jobs on them, print their output, and release everything. The worst exit code counts.

    provision N → submit → follow … → release
                             │
                             └ twice a second: sweep leases, give lost jobs to others, replace lost runners

It needs no `bullpen serve`: it does the necessary work of one while it runs. If it is killed, `release` gives
everything back and ends the jobs.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from bullpen import jobs
from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.jobs.log_tail import JobLogTail
from bullpen.jobs.request import JobRequest
from bullpen.liveness import LivenessController
from bullpen.liveness.interruption import leaving_instances
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.job import FINISHED, Job, Result
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.pool import lifecycle
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision
from bullpen.release import ReleaseOutcome, release

BY = "run"
POLL_EVERY = 0.25  # seconds; output is shown this much later at most
SWEEP_EVERY = 0.5  # seconds; at least four times in a confirm window, because a sweeper starts again after a gap
REPLACE_AGAIN = 5.0  # seconds after a replacement that failed
TIMED_OUT = 124  # as timeout(1) says it
CANCELLED = 130

Write = Callable[[Job, str], None]
"""Takes a line that a job printed."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How the run ended. Without `jobs` no runners could be provisioned, and `outcome` says why."""

    outcome: Outcome
    jobs: tuple[Job, ...] = ()
    released: ReleaseOutcome | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """The worst of all jobs; 130 if the run was interrupted."""
        if self.interrupted:
            return CANCELLED
        return max((exit_code_of(job) for job in self.jobs), default=1)


def exit_code_of(job: Job) -> int:
    """As a shell would say it: 0 only for a job that succeeded."""
    match job.result:
        case Result.SUCCEEDED:
            return 0
        case Result.TIMED_OUT:
            return TIMED_OUT
        case Result.CANCELLED:
            return CANCELLED
    if job.exit_code is None or job.exit_code == 0:
        return 1
    return job.exit_code if job.exit_code > 0 else 128 - job.exit_code


def numbered(run_id: str, command: Sequence[str], count: int, template: JobRequest) -> list[JobRequest]:
    """The same command `count` times, with `{index}` in its words replaced by 0 to `count` - 1."""
    return [
        replace(
            template,
            run_id=run_id,
            command=tuple(word.replace("{index}", str(index)) for word in command),
            name=f"{template.name or 'job'}-{index}",
            index=index,
        )
        for index in range(count)
    ]


async def run(
    ports: Ports,
    settings: Settings,
    request: Request,
    wanted: Sequence[JobRequest],
    *,
    stop: asyncio.Event,
    tell: Tell = lambda report: None,
    write: Write = lambda job, line: None,
) -> RunOutcome:
    """Serve a whole run. Every job is checked before anything is acquired. A job that fails is not an error here."""
    for one in wanted:
        jobs.checked(one)
        _check_capability(settings, one)
    outcome = await provision(ports, settings, request, stop=stop, tell=tell)
    if not outcome.succeeded:
        return RunOutcome(outcome, interrupted=outcome.interrupted)
    try:
        submitted = await jobs.submit(ports, wanted, by=BY)
        watch = _Watch(ports, settings, request, {job.id: job for job in submitted}, tell, write)
        ended = await watch.see_through(stop)
    except Exception:
        await _give_back(ports, settings, request, tell)
        raise
    released = await _give_back(ports, settings, request, tell)
    return RunOutcome(outcome, tuple(ended), released, interrupted=stop.is_set())


def _check_capability(settings: Settings, wanted: JobRequest) -> None:
    """The runners have the capabilities of the settings, and no others serve this run: the job would wait for ever."""
    if wanted.capability and wanted.capability not in settings.agent.capabilities:
        have = ", ".join(settings.agent.capabilities) or "none"
        raise ConfigError(
            f"capability {wanted.capability!r}: no runner has it; agent.capabilities are {have}",
            remedy="Name it in [agent] capabilities if the runners do have it.",
        )


async def _give_back(ports: Ports, settings: Settings, request: Request, tell: Tell) -> ReleaseOutcome:
    """Release. A runner that has been silent for as long as it takes to lose its lease is ended, not awaited."""
    tell(ProgressReport(WorkPhase.RELEASE, "giving the runners back"))
    mute = await _mute(ports, settings, await _runners(ports, request.run_id))
    await lifecycle.expire_and_terminate(ports, settings, mute, "it was silent at the end of its run", by=BY)
    # Its own stop: a user who interrupts the run wants it to end, not to leave its runners behind.
    return await release(ports, settings, request.run_id, stop=asyncio.Event(), tell=tell)


async def _runners(ports: Ports, run_id: str) -> list[Instance]:
    return [one for one in await ports.records.run_instances(run_id) if one.state is RUNNING]


async def _mute(ports: Ports, settings: Settings, runners: Sequence[Instance]) -> list[Instance]:
    """Runners that have sent beats, and none for as long as it takes to declare a worker lost."""
    now = ports.clock.now()
    lease = settings.timings.lease
    # The sweeper confirms for at least a third of the lease: a replacement before that would be in vain.
    patience = timedelta(seconds=lease + max(settings.liveness.confirm, lease / 2 + 2.0))
    pulses = await ports.signals.read([one.id for one in runners]) if runners else {}
    return [one for one in runners if (beat := pulses[one.id].heartbeat) is not None and beat.at + patience <= now]


@dataclass(slots=True)
class _Watch:
    """The jobs of a run, by id, until all have ended."""

    _ports: Ports
    _settings: Settings
    _request: Request
    _jobs: dict[str, Job]
    _tell: Tell
    _write: Write
    _liveness: LivenessController = field(init=False)
    _logs: dict[str, JobLogTail] = field(init=False)
    _sweep_at: float = 0.0
    _replacement: asyncio.Task[Outcome] | None = None
    _replace_at: float = 0.0
    _stop_replacing: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._liveness = LivenessController(self._ports, self._settings)
        self._logs = {id: JobLogTail(self._ports, id) for id in self._jobs}

    async def see_through(self, stop: asyncio.Event) -> list[Job]:
        """Return the jobs as they ended. After `stop` they are cancelled, and have `timings.settle` to end."""
        try:
            while not await self._all_ended() and not stop.is_set():
                await self._do_duties()
                await self._ports.signals.wait(POLL_EVERY)
            if stop.is_set():
                await self._cancel()
        finally:
            if self._replacement is not None:
                self._stop_replacing.set()
                await asyncio.gather(self._replacement, return_exceptions=True)
        return list(self._jobs.values())

    async def _all_ended(self) -> bool:
        """Read the jobs and pass on what they printed."""
        self._jobs |= await self._ports.jobs.jobs([*self._jobs])
        for id, job in self._jobs.items():
            for line in await self._logs[id].new_lines(job):
                self._write(job, line)
        left = self._unfinished()
        ended, total = len(self._jobs) - left, len(self._jobs)
        self._tell(ProgressReport(WorkPhase.JOBS, f"{ended} of {total} jobs ended", ended, total))
        return left == 0

    def _unfinished(self) -> int:
        return sum(job.state is not FINISHED for job in self._jobs.values())

    async def _do_duties(self) -> None:
        time = asyncio.get_running_loop().time()
        if time < self._sweep_at:
            return
        self._sweep_at = time + min(SWEEP_EVERY, self._settings.liveness.confirm / 4)
        swept = await self._liveness.run_once()
        for key in swept.sweep.lost:
            self._tell(ProgressReport(WorkPhase.LOSE, f"{key} is lost: its jobs go to others", about=key))
        await self._replace_lost(time)

    async def _replace_lost(self, time: float) -> None:
        """Top up to the requested count while there are jobs for so many. A silent runner may come back, and one that
        is about to be interrupted finishes its job: they stay, and are not counted."""
        if self._replacement is not None:
            if not self._replacement.done():
                return
            outcome, self._replacement = self._replacement.result(), None
            if len(outcome.members) < outcome.requested:
                reason = outcome.reason or "no more could be launched"
                self._tell(ProgressReport(WorkPhase.REPLACE, f"no replacement: {reason}", about=reason))
                self._replace_at = time + REPLACE_AGAIN
        if time < self._replace_at:
            return
        runners = await _runners(self._ports, self._request.run_id)
        mute = await _mute(self._ports, self._settings, runners)
        leaving = await leaving_instances(self._ports) if runners else {}
        lasting = [one for one in runners if one not in mute and one.id not in leaving]
        needed = min(self._request.count, self._unfinished())
        if len(lasting) >= needed:
            return
        lost = needed - len(lasting)
        self._tell(ProgressReport(WorkPhase.REPLACE, f"replacing lost runners: {lost}", total=lost))
        request = replace(self._request, count=needed, spares_silent=True)
        self._replacement = asyncio.get_running_loop().create_task(
            provision(self._ports, self._settings, request, stop=self._stop_replacing)
        )

    async def _cancel(self) -> None:
        self._tell(ProgressReport(WorkPhase.CANCEL, "cancelling the jobs"))
        for id in self._jobs:
            await jobs.cancel(self._ports, self._settings, id, by=BY, why="the run was interrupted")
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._settings.timings.settle
        while not await self._all_ended() and loop.time() < give_up:
            await self._ports.signals.wait(POLL_EVERY)
