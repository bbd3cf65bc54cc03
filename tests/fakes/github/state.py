"""What GitHub knows: repositories, runners, runs and their jobs. Plain records; `flow` says how runs and jobs move.

One lock for all of it. Requests are served on the server's thread and tests control it from theirs: code that reads
more than one field, or writes, holds `State.lock`, and calls `State.changed` after writing.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

QUEUED, IN_PROGRESS, COMPLETED = "queued", "in_progress", "completed"
SUCCESS, FAILURE, CANCELLED, SKIPPED = "success", "failure", "cancelled", "skipped"
DEFAULT_GROUP = 1


@dataclass(frozen=True)
class JobSpec:
    """A job as the workflow's file has it. `${{ github.run_id }}`, `${{ github.run_attempt }}` and
    `${{ needs.KEY.outputs.NAME }}` have their values in `runs_on`, `script` and `env`."""

    key: str
    runs_on: tuple[str, ...] = ("ubuntu-latest",)
    needs: tuple[str, ...] = ()
    script: str = ""  # what a runner of ours executes, in bash
    always: str = ""  # and after it, whatever came before: a step with `if: always()`
    environment: str = ""  # a job with one is a deployment
    env: Mapping[str, str] = field(default_factory=dict)
    name: str = ""  # empty: the key. A matrix has one key and several names.

    @property
    def shown(self) -> str:
        return self.name or self.key


@dataclass(eq=False)
class Job:
    id: int
    run: Run
    attempt: int
    spec: JobSpec
    created_at: datetime
    status: str = QUEUED
    conclusion: str = ""
    labels: tuple[str, ...] = ()
    runner: Runner | None = None
    runner_name: str = ""  # these three are kept when the runner is gone
    runner_id: int = 0
    group: Group = field(default_factory=lambda: Group(2, "GitHub Actions"))
    assigned_at: datetime | None = None  # to a runner that has not said `started` yet
    started_at: datetime | None = None
    completed_at: datetime | None = None
    renewed_at: datetime | None = None
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""
    annotation: str = ""  # why it failed without a word of its own

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def name(self) -> str:
        return self.spec.shown


@dataclass(eq=False)
class Run:
    id: int
    repository: Repository
    specs: tuple[JobSpec, ...]
    number: int
    head_sha: str
    created_at: datetime
    event: str = "push"
    name: str = "CI"
    head_branch: str = "main"
    status: str = QUEUED
    conclusion: str = ""
    attempts: list[list[Job]] = field(default_factory=list)
    started_at: datetime | None = None  # of the current attempt
    updated_at: datetime | None = None
    conclusions: list[str] = field(default_factory=list)  # of the attempts that are over
    is_cancelled: bool = False  # a caller asked for the end of the current attempt

    @property
    def attempt(self) -> int:
        return len(self.attempts)

    @property
    def state(self) -> str:
        """queued, in_progress, completed."""
        return self.status

    def jobs(self, attempt: int | None = None) -> list[Job]:
        """Of the current attempt unless named. Jobs whose needs are not met yet are not there."""
        return list(self.attempts[(attempt or self.attempt) - 1])

    def job(self, name: str, attempt: int | None = None) -> Job:
        """By name or key; KeyError while its needs are not met."""
        for job in self.jobs(attempt):
            if name in (job.name, job.key):
                return job
        raise KeyError(name)


@dataclass(eq=False)
class Repository:
    id: int
    name: str  # owner/name
    is_private: bool = True

    @property
    def owner(self) -> str:
        return self.name.partition("/")[0]


@dataclass(eq=False)
class Group:
    id: int
    name: str
    repositories: tuple[str, ...] = ()  # empty: all of the organisation


@dataclass(eq=False)
class Runner:
    id: int
    scope: str  # owner/name, or an organisation
    name: str
    labels: tuple[str, ...]
    created_at: datetime
    secret: str = field(default="", repr=False)
    version: str = ""
    group: int = DEFAULT_GROUP
    os: str = "linux"
    ephemeral: bool = False
    is_session_open: bool = False
    polls: int = 0  # requests that wait for a job right now
    seen_at: datetime | None = None
    job: Job | None = None
    scale_set: int = 0  # id of the set that it belongs to
    serving: tuple[str, ...] = ()  # labels of that set, which lists do not show
    settings: dict[str, Any] = field(default_factory=dict)  # what it said when it registered

    @property
    def busy(self) -> bool:
        return self.job is not None

    def serves(self, wanted: tuple[str, ...]) -> bool:
        """Whether it has every label; case does not matter."""
        return {label.lower() for label in wanted} <= {label.lower() for label in (*self.labels, *self.serving)}


@dataclass(frozen=True)
class Ticket:
    """A registration or removal token."""

    token: str = field(repr=False)
    kind: str
    scope: str
    expires_at: datetime


@dataclass(frozen=True)
class Deployment:
    id: int
    job: Job
    created_at: datetime


@dataclass(frozen=True)
class Release:
    version: str
    published_at: datetime


class State:
    def __init__(self, lease: float) -> None:
        self.lock = threading.Condition(threading.RLock())
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.ahead = timedelta()
        self.lease = lease  # seconds without renewal after which a job is given up for lost
        self.offline_after = 60.0  # seconds without a sign of a runner after which it is shown offline
        self.pick_up_within = 60.0  # seconds in which an assigned job must be started
        self.ids = itertools.count(9_000_000_001)  # past 32 bits, as GitHub's are
        self.runner_ids = itertools.count(1)
        self.repositories: dict[str, Repository] = {}
        self.groups: dict[str, list[Group]] = {}
        self.runners: dict[int, Runner] = {}
        self.removed_busy: dict[int, Runner] = {}  # whose jobs go on: GitHub removed them before it knew of those
        self.ghosts: set[int] = set()  # ids of runners that listen and are not registered
        self.busy_known_after = 0.0  # seconds of a job for which its runner is not known to be busy
        self.tickets: dict[str, Ticket] = {}
        self.runs: dict[int, Run] = {}
        self.deployments: list[Deployment] = []
        self.releases: list[Release] = []
        self.oldest_version = ""  # runners of older versions are refused
        self.version = 0  # counts changes
        self.on_change: list[Callable[[], None]] = []
        self.on_event: list[Callable[[str, str, Run, Job | None], None]] = []

    def clock(self) -> datetime:
        return self.now() + self.ahead

    def changed(self) -> None:
        """Wake all that wait, on every thread."""
        self.version += 1
        for tell in self.on_change:
            tell()
        self.lock.notify_all()

    def moved_since(self, version: int) -> bool:
        return self.version != version

    def tell(self, event: str, action: str, run: Run, job: Job | None = None) -> None:
        for tell in self.on_event:
            tell(event, action, run, job)

    def job(self, job_id: int) -> Job | None:
        for run in self.runs.values():
            for attempt in run.attempts:
                for job in attempt:
                    if job.id == job_id:
                        return job
        return None

    def repository(self, name: str) -> Repository | None:
        return self.repositories.get(name.lower())

    def has_scope(self, scope: str) -> bool:
        if "/" in scope:
            return scope.lower() in self.repositories
        return any(found.owner.lower() == scope.lower() for found in self.repositories.values())

    def groups_of(self, scope: str) -> list[Group]:
        return [Group(DEFAULT_GROUP, "Default"), *self.groups.get(scope.lower(), ())]

    def group_of(self, runner: Runner) -> Group:
        return next(group for group in self.groups_of(runner.scope) if group.id == runner.group)

    def is_online(self, runner: Runner) -> bool:
        if not runner.is_session_open:
            return False
        silent = self.clock() - runner.seen_at if runner.seen_at else timedelta.max
        return runner.polls > 0 or silent < timedelta(seconds=self.offline_after)

    def knows_busy(self, runner: Runner) -> bool:
        """Whether GitHub knows that it executes a job."""
        if runner.job is None:
            return False
        since = runner.job.started_at or runner.job.assigned_at
        return since is None or self.clock() - since >= timedelta(seconds=self.busy_known_after)

    def remove_runner(self, runner: Runner) -> None:
        if self.runners.pop(runner.id, None):
            if runner.job is not None:
                self.removed_busy[runner.id] = runner
            runner.is_session_open = False
            self.changed()
