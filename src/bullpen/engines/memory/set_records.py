"""What GitHub's service of scale sets in memory knows of a set, its session and its jobs."""

from dataclasses import field
from datetime import datetime

from bullpen.engines.memory.notify import MemoryWakeups
from bullpen.engines.memory.set_messages import SetQueue
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import JobMessage, JobMessageKind, ScaleSetSpec, SetStatistics


@dataclass(slots=True)
class QueuedJob:
    """A job of a set. `key` is GitHub's id of it, `id` that of its assignment, which changes."""

    key: int
    repository: str
    run: int
    name: str
    label: str
    queued_at: datetime
    id: str = ""
    assigned_at: datetime | None = None
    started_at: datetime | None = None
    runner: str = ""
    lapses: int = 0
    silent: bool = False  # no message tells of it until a runner has taken it


@dataclass(slots=True)
class OpenSession:
    id: str
    owner: str
    ends_at: float  # by the loop, unless its holder polls again


@dataclass(slots=True)
class StoredSet:
    spec: ScaleSetSpec
    id: int
    queue: SetQueue
    heard_at: float
    session: OpenSession | None = None
    capacity: int | None = None  # as the session has announced; None: not yet
    jobs: dict[int, QueuedJob] = field(default_factory=dict)
    runners: dict[str, int] = field(default_factory=dict)  # ids of registrations by name
    phantoms: int = 0  # jobs that the statistics count and that do not exist
    history: list[tuple[float, SetStatistics]] = field(default_factory=list)
    bell: MemoryWakeups = field(default_factory=MemoryWakeups)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label.casefold() for label in self.spec.labels or (self.spec.name,))

    @property
    def assigned(self) -> list[QueuedJob]:
        return [job for job in self.jobs.values() if job.assigned_at is not None]


def told(found: StoredSet, job: QueuedJob, kind: JobMessageKind, result: str, now: datetime) -> JobMessage:
    """What a message says about a job."""
    ran = job.started_at is not None and kind is not JobMessageKind.ASSIGNED
    return JobMessage(
        kind,
        f"Job{kind.capitalize()}",
        job_id=job.id,
        repository=job.repository,
        workflow_run=job.run,
        event="push",
        name=job.name,
        labels=(job.label,),
        runner_id=found.runners.get(job.runner, 0) if ran else 0,
        runner=job.runner if ran else "",
        result=result,
        queued_at=job.queued_at,
        assigned_at=job.assigned_at,
        started_at=job.started_at,
        finished_at=now if kind is JobMessageKind.COMPLETED else None,
    )
