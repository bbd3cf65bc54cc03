"""What the service of scale sets knows: sets, their sessions and messages, and the jobs that are theirs."""

from __future__ import annotations

import itertools
import secrets
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from fakes.github.state import CANCELLED, FAILURE, SUCCESS, Job, Runner, State
from fakes.github.views import at

Json = dict[str, Any]
AVAILABLE, ASSIGNED, STARTED, COMPLETED = "JobAvailable", "JobAssigned", "JobStarted", "JobCompleted"
RESULTS = {SUCCESS: "succeeded", FAILURE: "failed", CANCELLED: "canceled"}
NEVER = "0001-01-01T00:00:00Z"
QUEUE_TOKENS_LAST = timedelta(minutes=50)
MOST_ENTRIES = 50  # of one message


@dataclass(eq=False)
class SetJob:
    """A job that belongs to a set. `request` is what acquiring takes, 0 where jobs come assigned."""

    job: Job
    set: ScaleSet
    request: int = 0
    id: str = ""  # of the assignment: another one each time
    assigned_at: datetime | None = None  # to the set, unless it waits
    lapses: int = 0
    is_silent: bool = False  # no message tells of it until a runner has taken it

    @property
    def is_running(self) -> bool:
        return self.job.status == "in_progress"

    def assign(self, now: datetime) -> None:
        self.id, self.assigned_at = str(uuid.uuid4()), now


@dataclass(eq=False)
class Session:
    set: ScaleSet
    owner: str
    seen_at: datetime
    token_ends: datetime
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    polls: int = 0  # that wait right now

    def renew(self, now: datetime) -> None:
        self.token, self.token_ends = secrets.token_urlsafe(24), now + QUEUE_TOKENS_LAST


@dataclass(eq=False)
class Message:
    id: int
    entries: list[Json]
    statistics: Json
    garbled: str = ""  # which part cannot be read: body, entry, type or message
    is_acknowledged: bool = False
    repeats: int = 0  # how often it comes again, acknowledged or not


@dataclass(eq=False)
class ScaleSet:
    id: int
    scope: str
    name: str
    group: int
    labels: tuple[str, ...]
    disable_update: bool
    created_at: datetime
    heard_at: datetime  # a listener was there
    session: Session | None = None
    capacity: int | None = None  # as its session has announced; None: not yet
    entries: list[tuple[datetime, Json]] = field(default_factory=list)  # in no message yet, with when they are due
    messages: list[Message] = field(default_factory=list)
    message_ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    history: list[tuple[datetime, Json]] = field(default_factory=list)  # statistics, newest last
    phantoms: int = 0  # jobs that the statistics count and that do not exist

    def fits(self, state: State, job: Job) -> bool:
        repository = job.run.repository
        group = next(one for one in state.groups_of(self.scope) if one.id == self.group)
        is_open = not group.repositories or repository.name in group.repositories
        served = {label.lower() for label in self.labels}
        in_scope = self.scope.lower() in (repository.name.lower(), repository.owner.lower())
        return in_scope and is_open and {label.lower() for label in job.labels} <= served


def entry(kind: str, held: SetJob, url: str) -> Json:
    """What a message says about a job."""
    job, run = held.job, held.job.run
    shown: Json = {
        "messageType": kind,
        "runnerRequestId": held.request,
        "ownerName": run.repository.owner,
        "repositoryName": run.repository.name.partition("/")[2],
        "jobId": held.id,
        "jobWorkflowRef": f"{run.repository.name}/.github/workflows/ci.yml@refs/heads/{run.head_branch}",
        "jobDisplayName": job.name,
        "workflowRunId": run.id,
        "eventName": run.event,
        "requestLabels": list(job.labels),
        "queueTime": at(job.created_at),
        "scaleSetAssignTime": at(held.assigned_at) or NEVER,
        "runnerAssignTime": at(job.started_at) or NEVER,
        "finishTime": at(job.completed_at) or NEVER,
    }
    if kind == AVAILABLE:
        shown["acquireJobUrl"] = url
    if kind in (STARTED, COMPLETED):
        shown |= {"runnerId": job.runner_id, "runnerName": job.runner_name}
    if kind == COMPLETED:
        shown["result"] = RESULTS.get(job.conclusion, "canceled")
    return shown


def counted(jobs: list[SetJob], runners: list[Runner], phantoms: int = 0) -> Json:
    """The statistics of a set."""
    assigned = sum(one.assigned_at is not None for one in jobs)
    busy = sum(one.busy for one in runners)
    return {
        "totalAvailableJobs": sum(one.request > 0 and one.assigned_at is None for one in jobs),
        "totalAcquiredJobs": assigned,
        "totalAssignedJobs": assigned + phantoms,
        "totalRunningJobs": sum(one.is_running for one in jobs),
        "totalRegisteredRunners": len(runners),
        "totalBusyRunners": busy,
        "totalIdleRunners": len(runners) - busy,
    }
