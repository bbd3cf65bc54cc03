"""Worker: a process that serves jobs, and the lease that says it is alive.

                register, heartbeat                lose_lease                  clean_up, stop
    ─ first beat ─▶ ┌────────┐ ──────────────▶ ┌──────────┐ ──────────────▶ ┌────────────┐
                    │ active │                 │ inactive │                 │ cleaned up │  a tombstone, until purged
                    └────────┘ ◀────────────── └──────────┘                 └────────────┘
                        │         resurrect                                       ▲
                        └──────────────────────── stop ───────────────────────────┘

The record in the store is authoritative, never the worker. A beat renews the lease until `deadline`, which the receiver
computes from its own clock; no time that a worker sends is used. Past its deadline a worker is *suspect*: it gets no
new job. Only after a confirm window without a beat does it become inactive, and its jobs go to others.

What keeps a late worker harmless:

- `token` is raised by every accepted beat. A beat with another token was delayed or doubled, or is another worker's.
- `epoch` is raised by every resurrection. Jobs are bound to (worker, epoch), so those of a lost epoch stay cancelled.
- A key never has the same epoch twice, not even after its tombstone was purged: a store keeps the highest epoch of all
  workers that it has purged, one number, and a first beat begins after it. See `absent`.
- The debt of a lost epoch is written in the same write as its loss, and outlives a resurrection: `lost_epoch` is ahead
  of `settled_epoch` until every job of the lost epoch has gone to another worker.

A worker may know that its machine is about to be interrupted, as a spot machine is. It is *leaving* from then on: it
gets no new job, and is replaced while it finishes the one it has.

Timers are never cancelled: `due_at` only says when to read the record; its state then decides.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Self

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model.transition import Change, Event, Guard, steps_in, taking, transition


class State(StrEnum):
    ABSENT = "absent"  # never stored
    ACTIVE = "active"
    INACTIVE = "inactive"
    CLEANED_UP = "cleaned-up"


ABSENT, ACTIVE, INACTIVE, CLEANED_UP = State


class WorkerFate(StrEnum):
    KEEP = "keep"  # may come back
    RETIRE = "retire"  # its instance is being ended: it does not come back


@dataclass(frozen=True, slots=True)
class Worker:
    """One process. `id` is its key: the instance id and a random part drawn at each start of the process."""

    id: str
    state: State
    version: int
    instance_id: str = ""
    domain: str = ""  # failure domain: an availability zone, a host
    epoch: int = 0
    token: int = 0
    request_id: str = ""  # of the last accepted beat: the same again is a replay
    lease: float = 0.0  # seconds, as granted
    deadline: datetime | None = None
    due_at: datetime | None = None
    cleanup_at: datetime | None = None
    purge_at: datetime | None = None
    fate: WorkerFate = WorkerFate.KEEP
    lost_epoch: int = 0
    settled_epoch: int = 0
    beat_at: datetime | None = None  # when the last beat was accepted
    leaving: datetime | None = None  # when its machine is to be interrupted, as announced; never withdrawn
    activity: str = ""  # the job of GitHub that it reports, as `model.activity` writes it

    @property
    def owes_reschedule(self) -> bool:
        """True while jobs of a lost epoch may still be bound to this worker."""
        return self.lost_epoch > self.settled_epoch

    def is_suspect(self, now: datetime) -> bool:
        """True if it must get no new job: its lease is out, confirmed or not."""
        return self.state is not ACTIVE or self.deadline is None or self.deadline <= now

    def takes_jobs(self, now: datetime) -> bool:
        return self.leaving is None and not self.is_suspect(now)


HANDLES_FILES = ("files", "yes")
"""Among the extras of a worker that can run jobs with a source or artifacts. Earlier versions of the agent cannot."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a worker reports about itself: stored apart from the lease, because it hardly ever changes."""

    capabilities: tuple[str, ...] = ()
    build_id: str = ""
    host: str = ""
    pid: int = 0
    agent_version: str = ""
    extras: tuple[tuple[str, str], ...] = ()

    @property
    def handles_files(self) -> bool:
        """Whether the worker can run jobs with a source or artifacts."""
        return HANDLES_FILES in self.extras


def absent(key: str, forgotten_epoch: int = 0) -> Worker:
    """A worker before its first beat. The key may have been used and purged: the store does not know.

    `forgotten_epoch` is the highest epoch of any worker that the store has purged. A first beat begins in the next one,
    so a process that slept through its lease, its clean-up and the purge never gets one of its own epochs again.
    """
    return Worker(id=key, state=ABSENT, version=0, epoch=forgotten_epoch)


Step = tuple[Worker, tuple[Guard, ...]]


class Beat(NamedTuple):
    """One heartbeat as accepted: with the granted lease and the receiver's time. An event, and a tuple because a
    server makes thousands a second: a frozen dataclass takes seven times as long to make."""

    at: datetime
    by: str
    token: int
    lease: float
    request_id: str = ""
    instance_id: str = ""
    domain: str = ""
    leaving: datetime | None = None
    activity: str = ""  # the job of GitHub that runs now; empty: none
    why: str = ""


@transition(ABSENT, to=ACTIVE)
def register(worker: Worker, event: Beat) -> Step:
    """The first beat of a key: token 1, and epoch 1 or the one after all that the store has purged."""
    if event.token != 0:
        raise Conflict(f"{worker.id} is unknown: a first beat carries token 0, not {event.token}", found=None)
    return _renewed(worker, event, epoch=worker.epoch + 1), ()


@transition(ACTIVE, to=ACTIVE, silent=True)
def heartbeat(worker: Worker, event: Beat) -> Step:
    """The lease is renewed. The timer moves only if it must fire earlier; a later deadline is found when it fires."""
    return _renewed(worker, event, epoch=worker.epoch), (Guard("token", "is", event.token),)


@transition(INACTIVE, to=ACTIVE)
def resurrect(worker: Worker, event: Beat) -> Step:
    """A late beat with the last token makes the worker active again, in a new epoch: its old jobs stay cancelled."""
    return (
        replace(_renewed(worker, event, epoch=worker.epoch + 1), cleanup_at=None),
        (Guard("token", "is", event.token), Guard("fate", "is", WorkerFate.KEEP)),
    )


class LeaseExpired(Event):
    """The confirm window has passed since this deadline."""

    deadline: datetime
    cleanup_at: datetime
    fate: WorkerFate = WorkerFate.KEEP


@transition(ACTIVE, to=INACTIVE)
def lose_lease(worker: Worker, event: LeaseExpired) -> Step:
    """The lease and the confirm window ran out. Its jobs are owed to other workers from now on."""
    if worker.deadline is None or worker.deadline > event.at:
        raise Conflict(f"{worker.id} has a lease until {worker.deadline}", found=worker)
    after = taking(worker, event, deadline=None, due_at=event.cleanup_at, lost_epoch=worker.epoch)
    return after, (Guard("deadline", "is", event.deadline),)


class Rearmed(Event):
    due_at: datetime


@transition(ACTIVE, to=ACTIVE, silent=True)
def rearm(worker: Worker, event: Rearmed) -> Step:
    """The timer fired, but the lease was renewed since: the timer moves to the current deadline."""
    return replace(worker, due_at=event.due_at), ()


class CleanupDue(Event):
    cleanup_at: datetime
    purge_at: datetime


@transition(INACTIVE, to=CLEANED_UP)
def clean_up(worker: Worker, event: CleanupDue) -> Step:
    """Terminal. What the worker reported about itself is deleted; the tombstone refuses its beats until it is
    purged."""
    if worker.cleanup_at is None or worker.cleanup_at > event.at:
        raise Conflict(f"{worker.id} is to be cleaned up at {worker.cleanup_at}", found=worker)
    after = replace(worker, cleanup_at=None, due_at=None, purge_at=event.purge_at)
    return after, (Guard("cleanup_at", "is", event.cleanup_at),)


class Stopped(Event):
    """The worker reports that it has stopped, with the token and the epoch of its last answer."""

    token: int
    epoch: int
    purge_at: datetime


@transition(ACTIVE, INACTIVE, to=CLEANED_UP)
def stop(worker: Worker, event: Stopped) -> Step:
    """Terminal, at once: the worker reports that it has stopped. Its jobs are owed to others, as after a loss."""
    if worker.epoch != event.epoch:
        raise Conflict(f"{worker.id} is in epoch {worker.epoch}, not {event.epoch}", found=worker)
    after = replace(
        worker,
        deadline=None,
        due_at=None,
        cleanup_at=None,
        purge_at=event.purge_at,
        lost_epoch=worker.epoch if worker.state is ACTIVE else worker.lost_epoch,
    )
    return after, (Guard("token", "is", event.token),)


class Rescheduled(Event):
    epoch: int


@transition(INACTIVE, to=INACTIVE)
def settle_inactive(worker: Worker, event: Rescheduled) -> Step:
    """No job of the lost epoch is bound to it any more."""
    return replace(worker, settled_epoch=event.epoch), ()


@transition(ACTIVE, to=ACTIVE)
def settle_active(worker: Worker, event: Rescheduled) -> Step:
    """As for an inactive one: it came back before its old jobs went to others."""
    return replace(worker, settled_epoch=event.epoch), ()


@transition(CLEANED_UP, to=CLEANED_UP)
def settle_cleaned_up(worker: Worker, event: Rescheduled) -> Step:
    """As for an inactive one: it was cleaned up before its old jobs went to others."""
    return replace(worker, settled_epoch=event.epoch), ()


STEPS = steps_in(globals())


class Code(StrEnum):
    """Why a beat is rejected. Nothing of it is applied."""

    MISMATCH = "token-mismatch"  # delayed, doubled, or of another process: the answer carries the current token
    CLEANED_UP = "cleaned-up"  # terminal: take a new key
    RETIRED = "retired"  # its instance is being ended: stop
    UNKNOWN = "unknown-worker"  # a token for a key that the store does not know (any more): take a new key


class Accepted(NamedTuple):
    """An accepted beat: what the worker's record, which is active, has after it. A replay repeats the answer to a
    request that was answered before: nothing changed."""

    epoch: int
    token: int
    lease: float
    resurrected: bool = False
    replayed: bool = False

    @classmethod
    def of(cls, worker: Worker, *, resurrected: bool = False, replayed: bool = False) -> Self:
        return cls(worker.epoch, worker.token, worker.lease, resurrected, replayed)


@dataclass(frozen=True, slots=True)
class Rejected:
    code: Code
    state: State
    token: int


def receive(
    stored: Worker | None, key: str, beat: Beat, forgotten_epoch: int = 0
) -> Change[Worker] | Accepted | Rejected:
    """What a beat does to the worker as it is stored: a change to land, a replay, or nothing at all."""
    if stored is None:
        return register(absent(key, forgotten_epoch), beat) if beat.token == 0 else Rejected(Code.UNKNOWN, ABSENT, 0)
    if stored.state is CLEANED_UP:
        return Rejected(Code.CLEANED_UP, stored.state, stored.token)
    if beat.request_id and beat.request_id == stored.request_id and stored.state is ACTIVE:
        return Accepted.of(stored, replayed=True)
    if beat.token != stored.token:
        return Rejected(Code.MISMATCH, stored.state, stored.token)
    if stored.state is INACTIVE:
        retired = stored.fate is WorkerFate.RETIRE
        return Rejected(Code.RETIRED, stored.state, stored.token) if retired else resurrect(stored, beat)
    return heartbeat(stored, beat)


def _renewed(worker: Worker, event: Beat, *, epoch: int) -> Worker:
    deadline = event.at + timedelta(seconds=event.lease)
    earlier = worker.state is not ACTIVE or worker.due_at is None or deadline < worker.due_at
    return replace(
        worker,
        epoch=epoch,
        token=worker.token + 1,
        request_id=event.request_id,
        lease=event.lease,
        deadline=deadline,
        due_at=deadline if earlier else worker.due_at,
        beat_at=event.at,
        instance_id=event.instance_id or worker.instance_id,
        domain=event.domain or worker.domain,
        leaving=worker.leaving or event.leaving,
        activity=event.activity,
    )
