"""GitHub in memory: runs and their jobs, which runners take, and what becomes of a job whose runner dies.

A run's jobs go to registered runners that are online, free, and have the label, or belong to a scale set that has it;
jobs without a label run on GitHub's own machines. Of a runner that dies GitHub hears nothing more, and takes its job
for failed after `LEASE`. Nothing can be run again before the whole run has completed, and then only what belongs to
the current attempt.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import field, replace
from datetime import datetime

from bullpen.engines.memory.clock import LoopClock
from bullpen.engines.memory.set_runners import SetRunners
from bullpen.engines.memory.set_service import SetService
from bullpen.errors import NotFound, PermissionDenied
from bullpen.lazy_dataclass import dataclass
from bullpen.model.activity import Activity
from bullpen.model.scale_set import set_run_id
from bullpen.ports import Conclusion, JitConfiguration, Registration, WorkflowJob, WorkflowRun

LEASE = 600.0
"""Seconds from a runner's death to the failure of its job."""
POOL = "bullpen"
HOSTED = "GitHub Actions 1"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job of a workflow. `{run}` and `{attempt}` in its label are filled in by each attempt; without a label it runs
    on a machine of GitHub's own."""

    name: str
    label: str = ""
    lasts: float = 60.0
    ends: Conclusion = Conclusion.SUCCESS
    needs: tuple[str, ...] = ()
    environment: str = ""


@dataclass(slots=True)
class GithubJob:
    id: int
    spec: JobSpec
    attempt: int
    label: str
    queued: bool = False
    runner: str = ""
    started_at: datetime | None = None
    completed_at: datetime | None = None
    completed: bool = False
    conclusion: Conclusion = Conclusion.NONE
    skipped: bool = False

    @property
    def failed(self) -> bool:
        return self.completed and self.conclusion in (Conclusion.FAILURE, Conclusion.CANCELLED)

    def shown(self) -> WorkflowJob:
        labels = (self.label or "ubuntu-latest",)
        return WorkflowJob(
            self.id,
            self.spec.name,
            self.attempt,
            self.completed,
            self.conclusion,
            self.runner,
            labels,
            self.started_at,
            self.completed_at,
        )


@dataclass(slots=True)
class GithubRun:
    repository: str
    id: str
    attempts: list[list[GithubJob]] = field(default_factory=list)
    cancelled: bool = False
    history: list[tuple[float, WorkflowRun, list[list[WorkflowJob]]]] = field(default_factory=list)

    @property
    def jobs(self) -> list[GithubJob]:
        return self.attempts[-1]

    @property
    def completed(self) -> bool:
        return all(job.completed for job in self.jobs)

    def shown(self) -> WorkflowRun:
        found = [job.conclusion for job in self.jobs]
        worst = (one for one in (Conclusion.FAILURE, Conclusion.CANCELLED) if one in found)
        conclusion = next(worst, Conclusion.SUCCESS) if self.completed else ""
        return WorkflowRun(self.repository, self.id, len(self.attempts), self.completed, conclusion, "abc", "")


CONFIGURE = "configure a runner of a scale set"
"""The name of that call, for `MemoryGithub.denied`."""


class MemoryGithub:
    """Shared by all simulated processes; nothing here awaits. `lag` is by how many seconds what is shown is behind.
    `seed` decides what goes wrong with scale sets."""

    def __init__(self, registered: dict[str, Registration], lag: float = 0.0, seed: int = 0) -> None:
        self.lag = lag
        self.runs: dict[str, GithubRun] = {}
        self.reruns: list[tuple[str, int, tuple[str, ...]]] = []
        """Every re-run that was accepted: run, the attempt that it repeats, the jobs."""
        self.cancels: list[str] = []
        self.repositories: dict[str, int] = {}
        """Ids by case-folded name, 0 of one that is not visible. A name that is not there exists, too."""
        self.open_groups: dict[str, list[str]] | None = None
        """The runner groups that admit each repository; None: the scope has no groups."""
        self.denied: set[str] = set()
        """Calls that the credentials do not allow, by name."""
        self.on_event: Callable[[str, str], None] = lambda repository, run: None
        """Called for everything that happens to a run: there tests deliver webhooks, or lose them."""
        self.on_work: Callable[[str, Activity | None], None] = lambda name, activity: None
        """Called with what the runner of an instance executes from now on: there its agent binds and unbinds it."""
        self.sets = SetService(seed)
        self.set_runners = SetRunners(registered, self.sets, self.instance_of, self._assign)
        self._registered = registered
        self._waiting: dict[int, tuple[GithubRun, GithubJob]] = {}  # for a runner, oldest first
        self._at_work: dict[str, str] = {}  # runner of a job → its instance, also if it is not registered any more
        self._clock = LoopClock()
        self._number = 4710
        self._ends: dict[int, asyncio.TimerHandle] = {}

    # ---- what people and machines do

    def start(self, repository: str, *specs: JobSpec) -> str:
        """Start a workflow; returns the run's number."""
        run = GithubRun(repository, str(self._next()))
        self.runs[run.id] = run
        run.attempts.append([self._job(run, spec) for spec in specs])
        self._go_on(run)
        return run.id

    def register(self, name: str, label: str, round: str) -> Registration:
        """A runner comes online, under a name of its own for each round."""
        runner = Registration(name, label, busy=False, runner=f"{POOL}.{name}.{round[:8]}", online=True)
        self._registered[name] = runner
        self._assign()
        return self._registered[name]

    def configure(self, set_name: str, instance: str, round: str) -> JitConfiguration:
        """Register a runner of an instance with a scale set, for one job, under a name of its own. Raise NotFound."""
        found = next((one for one in self.sets.sets.values() if one.spec.name == set_name), None)
        if found is None:
            raise NotFound(f"scale set {set_name} does not exist")
        self.allows(CONFIGURE)
        return self.set_runners.configure(found.id, f"{POOL}.{instance}.{round[:8]}.{self._next()}")

    def instance_of(self, runner: str) -> str | None:
        """The instance that a runner is named after."""
        pool, _, rest = runner.partition(".")
        return rest.partition(".")[0] if pool == POOL and "." in rest else None

    def lose(self, name: str) -> None:
        """The machine of a runner dies, and GitHub hears nothing more of it."""
        gone = [one for one in self._registered.values() if one.name == name and one.online is not False]
        for one in gone:
            self._put(one, replace(one, online=False))
        unregistered = [runner for runner, own in self._at_work.items() if own == name and not self._is_listed(runner)]
        for runner in [*(one.handle for one in gone), *unregistered]:
            if (held := self._held(runner)) is not None:
                self._later(LEASE, *held, Conclusion.CANCELLED if held[0].cancelled else Conclusion.FAILURE)

    def rerun(self, run: GithubRun, names: tuple[str, ...]) -> None:
        """Repeat these jobs, and those that need them."""
        again = set(names)
        for _ in run.jobs:
            again |= {job.spec.name for job in run.jobs if again & set(job.spec.needs)}
        self.reruns.append((run.id, len(run.attempts), names))
        before, run.cancelled = run.jobs, False
        run.attempts.append([])
        for job in before:
            kept = replace(job, id=self._next(), attempt=len(run.attempts))
            run.jobs.append(self._job(run, job.spec) if job.spec.name in again else kept)
        self._go_on(run)

    def cancel(self, run: GithubRun) -> None:
        """What runs on a machine that lives ends at once; what a dead machine ran ends when GitHub gives it up."""
        run.cancelled = True
        for job in [one for one in run.jobs if not one.completed]:
            found = next((one for one in self._registered.values() if one.handle == job.runner), None)
            if found is not None and found.online is False:
                self._later(self._ends[job.id].when() - self._time(), run, job, Conclusion.CANCELLED)
            else:
                self._finish(run, job, Conclusion.CANCELLED)

    # ---- what clients see, a little later

    def seen(self, repository: str, number: str) -> tuple[WorkflowRun, list[list[WorkflowJob]]]:
        run = self.of(repository, number)
        shown = [one for one in run.history if one[0] <= self._time() - self.lag]
        _, found, attempts = shown[-1] if shown else run.history[0]
        return found, attempts

    def of(self, repository: str, number: str) -> GithubRun:
        run = self.runs.get(number)
        if run is None or run.repository.casefold() != repository.casefold():
            raise NotFound(f"run {number} of {repository} does not exist, or the token may not see it")
        return run

    def allows(self, call: str) -> None:
        if call in self.denied:
            raise PermissionDenied(f"{call}: the token lacks a permission")

    # ---- how it goes on

    def _go_on(self, run: GithubRun) -> None:
        by_name = {job.spec.name: job for job in run.jobs}
        for _ in run.jobs:  # a job that is skipped skips those that need it
            for job in run.jobs:
                needed = [by_name[name] for name in job.spec.needs]
                if job.completed or job.queued or not all(one.completed for one in needed):
                    continue
                if any(one.failed or one.skipped for one in needed):
                    job.completed, job.skipped, job.conclusion = True, True, Conclusion.SUCCESS
                else:
                    job.queued = True
                    self._waiting[job.id] = run, job
                    self.sets.queued(job.id, run.repository, int(run.id), job.spec.name, job.label, job.attempt > 1)
        self._assign()
        self._show(run)

    def _assign(self) -> None:
        for run, job in list(self._waiting.values()):
            if job.id not in self._waiting:  # given away by what was called meanwhile
                continue
            if not job.label:
                self._begin(run, job, HOSTED)
                continue
            free = [one for one in self._registered.values() if one.online and not one.busy]
            runner = next((one for one in free if self._serves(one, job)), None)
            if runner is not None and not self.set_runners.fails(runner.handle):
                self._put(runner, replace(runner, busy=True))
                self._at_work[runner.handle] = runner.name
                self._begin(run, job, runner.handle)
                name = job.spec.name
                served = self.sets.set_of(runner.handle)
                label = set_run_id(served.spec.name) if served is not None else job.label
                self.on_work(runner.name, Activity(run.repository, run.id, job.attempt, label, runner.handle, name))

    def _begin(self, run: GithubRun, job: GithubJob, runner: str) -> None:
        job.runner, job.started_at = runner, self._clock.now()
        self._waiting.pop(job.id, None)
        self.sets.started(job.id, runner)
        self._later(job.spec.lasts, run, job, job.spec.ends)
        self._show(run)

    def _finish(self, run: GithubRun, job: GithubJob, conclusion: Conclusion) -> None:
        if (timer := self._ends.pop(job.id, None)) is not None:
            timer.cancel()
        job.completed, job.conclusion, job.completed_at = True, conclusion, self._clock.now()
        self._waiting.pop(job.id, None)
        self.sets.completed(job.id, conclusion)
        self.set_runners.drop(job.runner)
        for one in [found for found in self._registered.values() if found.handle == job.runner]:
            self._put(one, replace(one, busy=False))
        if (name := self._at_work.pop(job.runner, None)) is not None:
            self.on_work(name, None)
        self._go_on(run)

    def _later(self, seconds: float, run: GithubRun, job: GithubJob, conclusion: Conclusion) -> None:
        """No process's timer: GitHub outlives them all."""
        if (timer := self._ends.pop(job.id, None)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._ends[job.id] = loop.call_later(seconds, self._finish, run, job, conclusion, context=Context())

    def _show(self, run: GithubRun) -> None:
        listed = [[job.shown() for job in jobs if job.queued or job.completed] for jobs in run.attempts]
        run.history.append((self._time(), run.shown(), listed))
        self.on_event(run.repository, run.id)

    def _serves(self, runner: Registration, job: GithubJob) -> bool:
        by_label = runner.label.casefold() == job.label.casefold()
        return by_label or self.set_runners.serves(runner.handle, job.label)

    def _is_listed(self, runner: str) -> bool:
        return any(one.handle == runner for one in self._registered.values())

    def _put(self, old: Registration, new: Registration) -> None:
        """Replace an entry of the list, under whichever name it stands there."""
        key = next(key for key, one in self._registered.items() if one is old)
        self._registered[key] = new

    def _held(self, runner: str) -> tuple[GithubRun, GithubJob] | None:
        found = ((run, job) for run in self.runs.values() for job in run.jobs)
        return next((one for one in found if one[1].runner == runner and not one[1].completed), None)

    def _job(self, run: GithubRun, spec: JobSpec) -> GithubJob:
        attempt = max(len(run.attempts), 1)
        return GithubJob(self._next(), spec, attempt, spec.label.format(run=run.id, attempt=attempt))

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _time(self) -> float:
        return asyncio.get_running_loop().time()
