"""What a question is about: the records that an id names, and how they stand, in one sentence."""

from collections.abc import Sequence

from bullpen.inventory import Story
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import CREATED, IDLE, TERMINATED, Instance
from bullpen.model.instance import RUNNING as INSTANCE_RUNNING
from bullpen.model.job import FINISHED, QUEUED, Job
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.pause import Pause, words_of
from bullpen.model.provision import ABORTED, OPEN, Provision
from bullpen.model.repository import Repository
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.wait import ExplainedWait, SubjectKind, WaitCause
from bullpen.model.worker import Worker

SINGLE = {
    Instance: SubjectKind.INSTANCE,
    Provision: SubjectKind.PROVISION,
    Worker: SubjectKind.WORKER,
    Job: SubjectKind.JOB,
    Repository: SubjectKind.REPOSITORY,
    ScaleSet: SubjectKind.SET,
    SetSession: SubjectKind.SET,
    Pause: SubjectKind.PAUSE,
    Rotation: SubjectKind.ROTATION,
}


@dataclass(frozen=True, slots=True)
class Subject:
    """The records of an id, by kind, as far as they are left."""

    id: str
    kind: SubjectKind
    stories: tuple[Story, ...]

    @property
    def provisions(self) -> list[Provision]:
        return [one.record for one in self.stories if isinstance(one.record, Provision)]

    @property
    def instances(self) -> list[Instance]:
        return [one.record for one in self.stories if isinstance(one.record, Instance)]

    @property
    def jobs(self) -> list[Job]:
        return [one.record for one in self.stories if isinstance(one.record, Job)]

    @property
    def workers(self) -> list[Worker]:
        return [one.record for one in self.stories if isinstance(one.record, Worker)]


def subject_of(id: str, stories: Sequence[Story]) -> Subject:
    """What `id` names, by the records that were found for it."""
    kinds = {SINGLE[type(one.record)] for one in stories if one.record is not None}
    named = [SINGLE[type(one.record)] for one in stories if one.record is not None and one.id == id]
    if named:
        return Subject(id, named[0], tuple(stories))
    if kinds == {SubjectKind.SET}:
        return Subject(id, SubjectKind.SET, tuple(stories))
    if kinds == {SubjectKind.REPOSITORY}:
        return Subject(id, SubjectKind.REPOSITORY, tuple(stories))
    prefixes = {"i-": SubjectKind.INSTANCE, "p-": SubjectKind.PROVISION, "j-": SubjectKind.JOB}
    if not kinds and id[:2] in prefixes:  # purged: its story is left
        return Subject(id, prefixes[id[:2]], tuple(stories))
    return Subject(id, SubjectKind.RUN, tuple(stories))


def summary_of(subject: Subject, waits: Sequence[ExplainedWait]) -> str:
    """One sentence: what it does, or why it waits."""
    if waits:
        first = waits[0]
        others = len(waits) - 1
        more = f" ({others} more {'wait' if others > 1 else 'waits'})" if others else ""
        if first.subject == subject.id:
            return f"{first.subject} waits: {_worded(first)}{more}"
        return f"{first.kind.value} {first.subject} waits: {_worded(first)}{more}"
    match subject.kind:
        case SubjectKind.RUN:
            return _of_run(subject)
        case SubjectKind.JOB if subject.jobs:
            return _of_job(subject.jobs[0])
        case SubjectKind.INSTANCE if subject.instances:
            return _of_instance(subject.instances[0])
        case SubjectKind.PROVISION if subject.provisions:
            return _of_provision(subject.provisions[0])
    records = [one.record for one in subject.stories if one.record is not None]
    if not records:
        return f"{subject.id} is purged; its last steps remain"
    if isinstance(pause := records[0], Pause):
        return words_of(pause) if pause.is_on else f"{pause.subject} is not paused"
    if isinstance(rotation := records[0], Rotation):
        left = f": {_count(len(rotation.members), 'instance')} to replace" if rotation.is_on else ""
        return f"class {rotation.resource_class} is {rotation.state}{left}"
    return f"{subject.id} is {records[0].state.value}, and waits for nothing"


def _worded(wait: ExplainedWait) -> str:
    return wait.because if wait.cause is not WaitCause.UNKNOWN else f"the reason is not known; {wait.because}"


def _of_run(subject: Subject) -> str:
    running = [one for one in subject.instances if one.state is INSTANCE_RUNNING]
    at_work = [one for one in subject.jobs if one.state is JOB_RUNNING]
    if running:
        jobs = f", and {_count(len(at_work), 'job')} executing" if at_work else ""
        return f"run {subject.id} has {_count(len(running), 'runner')}{jobs}, and waits for nothing"
    if subject.provisions and subject.provisions[0].state is ABORTED:
        return f"run {subject.id} has no runner: {subject.provisions[0].reason}"
    return f"run {subject.id} is over: its runners were given back"


def _of_job(job: Job) -> str:
    if job.state is FINISHED:
        why = f": {job.reason}" if job.reason else ""
        return f"{job.id} has {job.result.value or 'ended'}{why}"
    if job.state is QUEUED:
        return f"{job.id} is queued"
    return f"{job.id} runs on {job.instance_id or job.worker}"


def _of_instance(one: Instance) -> str:
    if one.is_claimable:
        return f"{one.id} is on offer until {one.threshold:%H:%M:%S}Z, and waits for nothing but a run"
    if one.state is INSTANCE_RUNNING:
        drained = ", and is drained: it is ended when that gives it back" if one.is_drained else ""
        return f"{one.id} serves run {one.run_id}{drained}"
    if one.state is TERMINATED:
        return f"{one.id} has ended" if one.owes is None else f"{one.id} is being ended"
    what = "being cleaned" if one.state is IDLE else "booting" if one.state is CREATED else "claimed"
    return f"{one.id} is {what}" + (", and is drained: it is ended when it is free" if one.is_drained else "")


def _of_provision(one: Provision) -> str:
    if one.state is OPEN:
        return f"{one.id} is open"
    if one.state is ABORTED:
        return f"{one.id} was not met: {one.reason}"
    if one.is_over:
        return f"{one.id} is over: its runners are given back"
    return f"{one.id} was met with {_count(len(one.members), 'runner')}" if one.members else f"{one.id} is over"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
