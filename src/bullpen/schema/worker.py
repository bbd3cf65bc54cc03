"""A worker: its lease, and what it says of itself."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, field

from bullpen.model.transition import StoryLine
from bullpen.model.worker import Card, Worker, WorkerFate
from bullpen.model.worker import State as WorkerState
from bullpen.schema.base import AnswerBody, Time, filled, time_of
from bullpen.schema.story import StoryLineAnswer, lines_of

if TYPE_CHECKING:
    from bullpen.inventory import Roster, Silence


class WorkerFilter(StrEnum):
    """Which workers a list has."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    SUSPECT = "suspect"  # active, and the lease is out


class WorkerAnswer(AnswerBody, frozen=True):
    """`deadline` is when its lease runs out. `mayReturn` is false once its instance is being ended: a lost worker does
    not come back then. Lists leave out `story`."""

    key: Annotated[str, Meta(description="Key of the worker.")]
    state: Annotated[WorkerState, Meta(description="State of the worker.")]
    instance_id: Annotated[str, Meta(description="Instance that it runs on; empty for a worker of another program.")]
    domain: Annotated[str, Meta(description="Failure domain.")]
    epoch: Annotated[int, Meta(description="Epoch: rises each time the worker returns after it was lost.")]
    token: Annotated[int, Meta(description="Token of its last accepted heartbeat.")]
    lease_seconds: Annotated[float, Meta(description="Length of its lease.")]
    deadline: Annotated[Time | None, Meta(description="When its lease runs out.")]
    cleanup_at: Annotated[Time | None, Meta(description="When it is cleaned up; null while it is active.")]
    heartbeat_at: Annotated[Time | None, Meta(description="When it last beat; null if that is not known.")]
    owes_reschedule: Annotated[bool, Meta(description="Whether its lost jobs are not all given to others yet.")]
    capabilities: Annotated[tuple[str, ...], Meta(description="Capabilities that it reports.")] = ()
    build_id: Annotated[str, Meta(description="Build that it reports.")] = ""
    host: Annotated[str, Meta(description="Host that it reports.")] = ""
    pid: Annotated[int, Meta(description="Process id that it reports.")] = 0
    agent_version: Annotated[str, Meta(description="Version that it reports.")] = ""
    extras: Annotated[dict[str, str], Meta(description="What else it reports.")] = field(default_factory=dict)
    leaving_at: Annotated[
        Time | None, Meta(description="When its machine is going to be taken away; null if that is not known.")
    ] = None
    may_return: Annotated[bool, Meta(description="False once its instance is being ended: it does not come back.")] = (
        True
    )
    story: Annotated[list[StoryLineAnswer], Meta(description="Its last steps, oldest first. Lists leave them out.")] = (
        field(default_factory=list)
    )


class WorkerList(AnswerBody, frozen=True):
    """`next` is the key after which the next page begins; empty at the end."""

    workers: Annotated[list[WorkerAnswer], Meta(description="The workers of this page, by key.")]
    next: Annotated[str, Meta(description="`after` of the next page; empty at the end.")]


class SilentWorker(AnswerBody, frozen=True):
    """A worker that missed its lease: suspect while `state` is active, else lost. `mayReturn` if a lost one may come
    back, because it is no machine of the pool. `jobIds` are still bound to it."""

    key: Annotated[str, Meta(description="Key of the worker.")]
    state: Annotated[WorkerState, Meta(description="`active` while it is only suspect, else it was lost.")]
    may_return: Annotated[bool, Meta(description="Whether a lost one may come back: it is no machine of the pool.")]
    instance_id: Annotated[str, Meta(description="Instance that it runs on; empty for a worker of another program.")]
    epoch: Annotated[int, Meta(description="Epoch of the worker.")]
    heartbeat_at: Annotated[Time | None, Meta(description="When it last beat; null if that is not known.")]
    job_ids: Annotated[tuple[str, ...], Meta(description="Ids of the jobs that are still bound to it.")]


class WorkerStopped(AnswerBody, frozen=True):
    """The worker is cleaned up. `givenBack` are the ids of its jobs, which other workers may take now."""

    key: Annotated[str, Meta(description="Key of the worker.")]
    state: Annotated[WorkerState, Meta(description="State of the worker.")]
    given_back: Annotated[list[str], Meta(description="Ids of its jobs, which other workers may take now.")]


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


def workers_of(found: "Roster") -> WorkerList:
    return WorkerList([worker_of(one.worker, one.card) for one in found.workers], found.next)


def silent_worker_of(silence: "Silence") -> SilentWorker:
    worker = silence.worker
    return filled(
        SilentWorker,
        worker,
        key=worker.id,
        may_return=worker.fate is WorkerFate.KEEP,
        heartbeat_at=time_of(worker.beat_at),
        job_ids=silence.jobs,
    )
