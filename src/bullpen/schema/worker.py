"""A worker: its lease, and what it says of itself."""

from collections.abc import Sequence

from msgspec import field

from bullpen.inventory import Roster, Silence
from bullpen.model.transition import StoryLine
from bullpen.model.worker import Card, Worker, WorkerFate
from bullpen.model.worker import State as WorkerState
from bullpen.schema.base import AnswerBody, filled, time_of
from bullpen.schema.story import StoryLineAnswer, lines_of


class WorkerAnswer(AnswerBody, frozen=True):
    """`deadline` is when its lease runs out. `mayReturn` is false once its instance is being ended: a lost worker does
    not come back then. Lists leave out `story`."""

    key: str
    state: WorkerState
    instance_id: str
    domain: str
    epoch: int
    token: int
    lease_seconds: float
    deadline: str | None
    cleanup_at: str | None
    heartbeat_at: str | None
    owes_reschedule: bool
    capabilities: tuple[str, ...] = ()
    build_id: str = ""
    host: str = ""
    pid: int = 0
    agent_version: str = ""
    extras: dict[str, str] = field(default_factory=dict)
    leaving_at: str | None = None
    may_return: bool = True
    story: list[StoryLineAnswer] = field(default_factory=list)


class WorkerList(AnswerBody, frozen=True):
    """`next` is the key after which the next page begins; empty at the end."""

    workers: list[WorkerAnswer]
    next: str


class SilentWorker(AnswerBody, frozen=True):
    """A worker that missed its lease: suspect while `state` is active, else lost. `mayReturn` if a lost one may come
    back, because it is no machine of the pool. `jobIds` are still bound to it."""

    key: str
    state: WorkerState
    may_return: bool
    instance_id: str
    epoch: int
    heartbeat_at: str | None
    job_ids: tuple[str, ...]


class WorkerStopped(AnswerBody, frozen=True):
    """The worker is cleaned up. `givenBack` are the ids of its jobs, which other workers may take now."""

    key: str
    state: WorkerState
    given_back: list[str]


def worker_of(worker: Worker, card: Card, story: Sequence[StoryLine] = ()) -> WorkerAnswer:
    return filled(
        WorkerAnswer,
        worker,
        card,
        key=worker.id,
        lease_seconds=worker.lease,
        heartbeat_at=time_of(worker.beat_at),
        extras=dict(card.extras),
        leaving_at=time_of(worker.leaving),
        may_return=worker.fate is not WorkerFate.RETIRE,
        story=lines_of(story),
    )


def workers_of(found: Roster) -> WorkerList:
    return WorkerList([worker_of(one.worker, one.card) for one in found.workers], found.next)


def silent_worker_of(silence: Silence) -> SilentWorker:
    worker = silence.worker
    return filled(
        SilentWorker,
        worker,
        key=worker.id,
        may_return=worker.fate is WorkerFate.KEEP,
        heartbeat_at=time_of(worker.beat_at),
        job_ids=silence.jobs,
    )
