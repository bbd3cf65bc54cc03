"""Job: a command that a run wants executed, at least once, with exactly one result.

            assign                       finish
    ┌────────┐ ──────────▶ ┌─────────┐ ──────────▶ ┌──────────┐
    │ queued │             │ running │             │ finished │   exit code, or a reason
    └────────┘ ◀────────── └─────────┘             └──────────┘
         │      reschedule      │  give_up: lost too often       ▲
         └──────────────────────┴────────────────────────────────┘
              cancel, give_up: no worker is left to run it

Every assignment raises the *fence* and names the worker and its epoch. A result counts only with the fence, worker and
epoch of the current assignment: the result of a lost worker that comes back late is refused. Execution is at least
once, completion exactly once. A job on a lost worker may go on until its machine is ended: a job with `side_effects` is
run again only after that.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model.transition import Event, Guard, steps_in, taking, transition

At = TypeVar("At")
LOSSES = 3
"""How often a job may lose its worker before it fails: by then it is likely the job that kills them."""


WITH_FILES = "with files"
"""Begins the stored capability of a job with a source or artifacts. No agent of an earlier version has such a
capability, so none takes a job that it would run in an empty directory. No setting can name one: it has a space."""


def able(capabilities: tuple[str, ...], *, files: bool) -> tuple[str, ...]:
    """The stored capabilities of the jobs that a worker with these capabilities can run, beside jobs that need none."""
    if not files:
        return capabilities
    return (*capabilities, WITH_FILES, *(f"{WITH_FILES} {one}" for one in capabilities))


def shell_exit_code(code: int) -> int:
    """As a shell says it, and users see it: 128 + N if signal N ended the command. Stored is -N."""
    return code if code >= 0 else 128 - code


class State(StrEnum):
    ABSENT = "absent"  # never stored
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"


ABSENT, QUEUED, RUNNING, FINISHED = State


class Result(StrEnum):
    NONE = ""
    SUCCEEDED = "succeeded"  # exit code 0
    FAILED = "failed"  # another exit code, or no worker could finish it
    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    state: State
    version: int
    run_id: str
    command: tuple[str, ...]
    name: str = ""
    index: int = 0
    timeout: float = 0.0  # seconds; 0: the run's maximum runtime bounds it
    capability: str = ""  # what its worker must have
    side_effects: bool = False  # given to another worker only once the machine of the lost one is gone
    queued_at: datetime | None = None
    not_before: datetime | None = None  # a lost job waits a little longer each time
    fence: int = 0
    worker: str = ""
    epoch: int = 0
    instance_id: str = ""
    bound: bool = False  # the worker has reported that it runs it
    verify_by: datetime | None = None  # assigned but not bound by then: given to another
    losses: int = 0
    avoid: str = ""  # the worker that lost it last, or on which an earlier try failed
    cancelling: bool = False  # its worker is to stop it
    result: Result = Result.NONE
    exit_code: int | None = None
    reason: str = ""
    finished_at: datetime | None = None
    purge_at: datetime | None = None
    source: str = ""  # the files that its working directory has at the start, see `model.manifest`; empty: none
    artifacts: tuple[str, ...] = ()  # patterns of the files that are kept when it has ended

    @property
    def own_capability(self) -> str:
        """What was asked for, without what the files of the job need."""
        return self.capability.removeprefix(WITH_FILES).lstrip()


def absent(job_id: str, run_id: str, command: tuple[str, ...]) -> Job:
    return Job(id=job_id, state=ABSENT, version=0, run_id=run_id, command=command)


def has_used(job: Job, since: datetime) -> bool:
    """True if the job runs on an instance, or ran there until `since` or later."""
    return bool(job.instance_id) and (job.finished_at is None or job.finished_at >= since)


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds that a job waited since it was queued last, and that it ran on the runner that it ended on. None as long
    as they are not over, and for what never began."""

    waited: float | None = None
    ran: float | None = None


def began_at(story: Iterable[tuple[str, At]]) -> At | None:
    """When a job was given to the runner that it ran on last, by the names and times of its steps; None if it went back
    to the queue since."""
    found = None
    for step, at in story:
        if step in ("assign", "reschedule"):
            found = at if step == "assign" else None
    return found


def durations(job: Job, began: datetime | None) -> Durations:
    return Durations(_seconds(job.queued_at, began or job.finished_at), _seconds(began, job.finished_at))


def _seconds(since: datetime | None, until: datetime | None) -> float | None:
    return None if since is None or until is None else round((until - since).total_seconds(), 3)


Step = tuple[Job, tuple[Guard, ...]]


class Submitted(Event):
    name: str = ""
    index: int = 0
    timeout: float = 0.0
    capability: str = ""
    side_effects: bool = False
    avoid: str = ""
    source: str = ""
    artifacts: tuple[str, ...] = ()


@transition(ABSENT, to=QUEUED)
def submit(job: Job, event: Submitted) -> Step:
    """The job waits for a worker of its run."""
    capability = event.capability
    if event.source or event.artifacts:
        capability = f"{WITH_FILES} {capability}".rstrip()
    return taking(job, event, queued_at=event.at, capability=capability), ()


class JobPostponed(Event):
    not_before: datetime


@transition(QUEUED, to=QUEUED)
def postpone(job: Job, event: JobPostponed) -> Step:
    """It waits for a runner that is on its way; at the latest then, any worker may have it."""
    return replace(job, not_before=event.not_before), ()


class Assigned(Event):
    worker: str
    epoch: int
    instance_id: str
    verify_by: datetime


@transition(QUEUED, to=RUNNING)
def assign(job: Job, event: Assigned) -> Step:
    """A worker gets the job, under a new fence; the store checks in the same write that the worker is alive."""
    if job.not_before is not None and job.not_before > event.at:
        raise Conflict(f"{job.id} waits until {job.not_before}", found=job)
    return taking(job, event, fence=job.fence + 1, bound=False, not_before=None), ()


class Holder(Event):
    """The holder of an assignment reports: all three must be those of the current assignment."""

    worker: str
    epoch: int
    fence: int


@transition(RUNNING, to=RUNNING)
def bind(job: Job, event: Holder) -> Step:
    """The worker reports that it runs the job: so the assignment was not lost on the way."""
    return replace(job, bound=True, verify_by=None), _held_by(event)


class LetGo(Holder):
    verify_by: datetime


@transition(RUNNING, to=RUNNING)
def unbind(job: Job, event: LetGo) -> Step:
    """The worker reports that the job has ended. Its result is on the way; if it never arrives, `verify_by` shows
    that."""
    return replace(job, bound=False, verify_by=event.verify_by), _held_by(event)


class Ran(Holder):
    exit_code: int
    result: Result
    purge_at: datetime


@transition(RUNNING, to=FINISHED)
def finish(job: Job, event: Ran) -> Step:
    """Exactly once: only the current assignment may report a result. The worker of a job that was cancelled says how
    it ended; why it was cancelled was stored with the order."""
    ordered = job.reason if job.cancelling and event.result is Result.CANCELLED else ""
    reason = f"{ordered}; {event.why}" if ordered else event.why
    return taking(job, event, reason=reason, finished_at=event.at, verify_by=None), _held_by(event)


class Lost(Holder):
    not_before: datetime


@transition(RUNNING, to=QUEUED)
def reschedule(job: Job, event: Lost) -> Step:
    """Its worker is lost: the job goes back to the queue, for another worker."""
    if job.losses + 1 >= LOSSES:
        raise Conflict(f"{job.id} has been lost {job.losses + 1} times: give it up", found=job)
    if job.cancelling:
        raise Conflict(f"{job.id} is being cancelled: give it up", found=job)
    after = replace(
        job,
        worker="",
        epoch=0,
        instance_id="",
        bound=False,
        verify_by=None,
        losses=job.losses + 1,
        avoid=event.worker,
        not_before=event.not_before,
    )
    return after, _held_by(event)


class GivenUp(Event):
    purge_at: datetime
    result: Result = Result.FAILED


@transition(QUEUED, RUNNING, to=FINISHED)
def give_up(job: Job, event: GivenUp) -> Step:
    """It will not run: lost too often, cancelled, or its run has no runner left. The reason says which."""
    return taking(job, event, reason=event.why, finished_at=event.at, verify_by=None, not_before=None), ()


class CancelAsked(Event):
    pass


@transition(RUNNING, to=RUNNING)
def ask_to_cancel(job: Job, event: CancelAsked) -> Step:
    """The answer to the worker's next beat asks it to stop the job. The worker reports the end."""
    return replace(job, cancelling=True, reason=event.why), ()


STEPS = steps_in(globals())


def _held_by(event: Holder) -> tuple[Guard, ...]:
    return tuple(Guard(name, "is", getattr(event, name)) for name in ("fence", "worker", "epoch"))
