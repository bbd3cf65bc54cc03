"""Run: provision runners, run jobs on them, print their output, and release everything. The worst exit code counts.

    provision N → submit → follow … → release
                             │
                             ├ a job that failed by itself is submitted again, as often as `retries` says
                             └ twice a second: sweep leases, give lost jobs to others, replace lost runners

It needs no `bullpen serve`: it does the necessary work of one while it runs. If it is killed, `release` gives
everything back and ends the jobs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime

from bullpen import jobs
from bullpen.config import Settings
from bullpen.errors import BullpenError, ConfigError
from bullpen.jobs.request import JobRequest
from bullpen.lazy_dataclass import dataclass
from bullpen.model.job import FINISHED, Durations, Job, Result, began_at, durations, shell_exit_code
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.pool import lifecycle
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision
from bullpen.release import ReleaseOutcome, release
from bullpen.run.replacement import mute_runners, runners_of
from bullpen.run.watch import BY, RunOptions, Watch, Write
from bullpen.sources import Sent
from bullpen.sources.upkeep import tidy

__all__ = ["RunOptions", "RunOutcome", "Write", "exit_code_of", "numbered", "run"]

SendFiles = Callable[[], Awaitable[Sent]]
"""Sends the files that every job works on."""

TIMED_OUT = 124  # as timeout(1) says it
CANCELLED = 130


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How the run ended. Without `jobs` no runners could be provisioned, and `outcome` says why.

    `jobs` has the last try of each job; by its id, `earlier` has the tries that failed before it, `started` has when
    each try began, and `spent` how long it waited and ran, if a server has measured that. `failed_first` is the job
    whose failure cancelled the others.
    """

    outcome: Outcome
    jobs: tuple[Job, ...] = ()
    released: ReleaseOutcome | None = None
    interrupted: bool = False
    earlier: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)
    started: Mapping[str, datetime] = field(default_factory=dict)
    spent: Mapping[str, Durations] = field(default_factory=dict)
    failed_first: Job | None = None
    seconds: float = 0.0
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # brought back, by the id of their job

    @property
    def exit_code(self) -> int:
        """The worst of all jobs; of one whose failure cancelled the others, its own; 130 if the run was interrupted."""
        if self.interrupted:
            return CANCELLED
        if self.failed_first is not None:
            return exit_code_of(self.failed_first)
        return max((exit_code_of(job) for job in self.jobs), default=1)

    def durations(self, job: Job) -> Durations:
        return self.spent.get(job.id) or durations(job, self.started.get(job.id))

    def attempts(self, job: Job) -> int:
        """How often the job was started: again after a loss of its runner, and again after a failure."""
        return sum(one.fence for one in (*self.earlier.get(job.id, ()), job))


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
    return shell_exit_code(job.exit_code)


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
    options: RunOptions = RunOptions(),  # noqa: B008 - frozen
    tell: Tell = lambda report: None,
    write: Write = lambda job, line: None,
    files: SendFiles | None = None,
) -> RunOutcome:
    """Serve a whole run. Every job is checked, and `files` are sent, before anything is acquired. A job that fails is
    not an error here."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for one in wanted:
        jobs.checked(one)
        _check_capability(settings, one)
    if files is not None:
        sent = await files()
        wanted = [replace(one, source=sent.source) for one in wanted]
    outcome = await provision(ports, settings, request, stop=stop, tell=tell)
    if not outcome.succeeded:
        return RunOutcome(outcome, interrupted=outcome.interrupted)
    try:
        watch = await Watch.begin(ports, settings, request, wanted, options, tell, write)
        await watch.see_through(stop)
    except Exception:
        await _give_back(ports, settings, request, tell)
        raise
    released = await _give_back(ports, settings, request, tell)
    if files is not None:
        with suppress(BullpenError):  # the next upkeep tries again: the jobs have ended, and their results count
            await tidy(ports, settings)
    ended = await _as_they_ended(ports, watch.jobs)
    return RunOutcome(
        outcome,
        tuple(ended),
        released,
        interrupted=stop.is_set(),
        earlier=watch.earlier,
        started=await _started(ports, [*ended, *(one for tries in watch.earlier.values() for one in tries)]),
        failed_first=watch.failed_first,
        seconds=loop.time() - began,
    )


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
    mute = await mute_runners(ports, settings, await runners_of(ports, request.run_id))
    await lifecycle.expire_and_terminate(ports, settings, mute, "it was silent at the end of its run", by=BY)
    # Its own stop: a user who interrupts the run wants it to end, not to leave its runners behind.
    return await release(ports, settings, request.run_id, stop=asyncio.Event(), tell=tell)


async def _as_they_ended(ports: Ports, last_seen: Sequence[Job]) -> list[Job]:
    """One that did not end in time was ended by the release."""
    left = [job.id for job in last_seen if job.state is not FINISHED]
    found = await ports.jobs.jobs(left) if left else {}
    return [found.get(job.id, job) for job in last_seen]


async def _started(ports: Ports, tries: Sequence[Job]) -> dict[str, datetime]:
    """When each try began on the runner that it ended on, by its story."""
    stories = await ports.records.stories([job.id for job in tries])
    return {id: at for id, lines in stories.items() if (at := began_at((line.step, line.at) for line in lines))}
