"""Worker: a process that serves jobs, and the lease that says it is alive.

                register, heartbeat                lose_lease                  clean_up, stop
    ─ first beat ─▶ ┌────────┐ ──────────────▶ ┌──────────┐ ──────────────▶ ┌────────────┐
                    │ active │                 │ inactive │                 │ cleaned up │  a tombstone, until purged
                    └────────┘ ◀────────────── └──────────┘                 └────────────┘
                        │         resurrect                                       ▲
                        └──────────────────────── stop ───────────────────────────┘

Who is authoritative: the store's record, never the worker. A beat renews the lease until `deadline`, which the receiver
computes from its own clock; no time that a worker sends is used. Past its deadline a worker is *suspect*: it gets no
new job. Only after a confirm window in which nothing moved does it become inactive, and its jobs go to others.

What keeps a late worker harmless:

- `token` is raised by every accepted beat. A beat with another token was delayed, doubled or is not this worker's.
- `epoch` is raised by every resurrection. Jobs are bound to (worker, epoch), so those of a lost epoch stay cancelled.
- A key never has the same epoch twice, not even after its tombstone was purged: a store remembers the highest epoch of
  all workers that it has forgotten, one number, and a first beat begins after it. See `absent`.
- The debt of a lost epoch is written in the same write as its loss, and outlives a resurrection: `lost_epoch` runs
  ahead of `settled_epoch` until every job of it has been given to somebody else.

A worker may know that its machine is about to be taken away, as a spot machine is. It is *leaving* from then on, until
it is gone: it gets no new job, and is replaced while it finishes the one it has.

Timers are never cancelled: `due_at` only says when to look; what is found there decides.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from bullpen.errors import Conflict
from bullpen.model.transition import Change, Event, Guard, transition


class State(StrEnum):
    ABSENT = "absent"  # never stored
    ACTIVE = "active"
    INACTIVE = "inactive"
    CLEANED_UP = "cleaned-up"


ABSENT, ACTIVE, INACTIVE, CLEANED_UP = State


class Fate(StrEnum):
    KEEP = "keep"  # may come back
    RETIRE = "retire"  # its instance is being ended: it does not come back


@dataclass(frozen=True, slots=True)
class Worker:
    """One process. `id` is its key: the instance id and a random part drawn at each start of the process."""

    id: str
    state: State
    version: int
    instance_id: str = ""
    domain: str = ""  # what fails together: an availability zone, a host
    epoch: int = 0
    token: int = 0
    request_id: str = ""  # of the last accepted beat: the same again is a replay
    lease: float = 0.0  # seconds, as granted
    deadline: datetime | None = None
    due_at: datetime | None = None
    cleanup_at: datetime | None = None
    purge_at: datetime | None = None
    fate: Fate = Fate.KEEP
    lost_epoch: int = 0
    settled_epoch: int = 0
    beat_at: datetime | None = None  # when the last beat was accepted
    leaving: datetime | None = None  # when its machine is to be taken away, as it was told; never taken back
    activity: str = ""  # the job of a CI that has jobs of its own, as `model.activity` writes it; bound while it stands

    @property
    def owes_reschedule(self) -> bool:
        """True while jobs of a lost epoch may still be bound to this worker."""
        return self.lost_epoch > self.settled_epoch

    def is_suspect(self, now: datetime) -> bool:
        """True if it must get no new job: its lease is out, confirmed or not."""
        return self.state is not ACTIVE or self.deadline is None or self.deadline <= now

    def takes_jobs(self, now: datetime) -> bool:
        return self.leaving is None and not self.is_suspect(now)


@dataclass(frozen=True, slots=True)
class Card:
    """What a worker says of itself: stored apart from the lease, because it hardly ever changes."""

    capabilities: tuple[str, ...] = ()
    build_id: str = ""
    host: str = ""
    pid: int = 0
    agent_version: str = ""
    extras: tuple[tuple[str, str], ...] = ()


def absent(key: str, forgotten_epoch: int = 0) -> Worker:
    """A worker before its first beat. The key may have been used, purged and forgotten: the store cannot tell.

    `forgotten_epoch` is the highest epoch that any forgotten worker of the store had. A first beat begins in the next
    one, so a process that slept through its lease, its clean-up and the purge never meets an epoch of its own again.
    """
    return Worker(id=key, state=ABSENT, version=0, epoch=forgotten_epoch)


Step = tuple[Worker, tuple[Guard, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Event):
    """One heartbeat as accepted: the lease is granted already, the time is the receiver's."""

    token: int
    lease: float
    request_id: str = ""
    instance_id: str = ""
    domain: str = ""
    leaving: datetime | None = None
    activity: str = ""  # what it runs now: a beat without one unbinds what an earlier one bound


@transition(ABSENT, to=ACTIVE)
def register(worker: Worker, event: Beat) -> Step:
    """The first beat of a key: token 1, and epoch 1 or the one after all that the store has forgotten."""
    if event.token != 0:
        raise Conflict(f"{worker.id} is not known: a first beat carries token 0, not {event.token}", found=None)
    return _renewed(worker, event, epoch=worker.epoch + 1), ()


@transition(ACTIVE, to=ACTIVE, silent=True)
def heartbeat(worker: Worker, event: Beat) -> Step:
    """The lease is renewed. The timer moves only if it must move earlier; a later deadline is found when it fires."""
    return _renewed(worker, event, epoch=worker.epoch), (Guard("token", "is", event.token),)


@transition(INACTIVE, to=ACTIVE)
def resurrect(worker: Worker, event: Beat) -> Step:
    """A late beat with the last token brings the worker back at once, in a new epoch: its old jobs stay cancelled."""
    return (
        replace(_renewed(worker, event, epoch=worker.epoch + 1), cleanup_at=None),
        (Guard("token", "is", event.token), Guard("fate", "is", Fate.KEEP)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired(Event):
    """The deadline that was seen, confirmed."""

    deadline: datetime
    cleanup_at: datetime
    fate: Fate = Fate.KEEP


@transition(ACTIVE, to=INACTIVE)
def lose_lease(worker: Worker, event: LeaseExpired) -> Step:
    """The lease ran out, and the confirm window with it. From here on its jobs are owed to others."""
    if worker.deadline is None or worker.deadline > event.at:
        raise Conflict(f"{worker.id} has a lease until {worker.deadline}", found=worker)
    after = replace(
        worker,
        deadline=None,
        cleanup_at=event.cleanup_at,
        due_at=event.cleanup_at,
        fate=event.fate,
        lost_epoch=worker.epoch,
    )
    return after, (Guard("deadline", "is", event.deadline),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearmed(Event):
    due_at: datetime


@transition(ACTIVE, to=ACTIVE, silent=True)
def rearm(worker: Worker, event: Rearmed) -> Step:
    """The timer fired early, for the lease was renewed since: it moves to the deadline that stands now."""
    return replace(worker, due_at=event.due_at), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupDue(Event):
    cleanup_at: datetime
    purge_at: datetime


@transition(INACTIVE, to=CLEANED_UP)
def clean_up(worker: Worker, event: CleanupDue) -> Step:
    """Terminal. What the worker said of itself goes now; the tombstone stays and refuses its beats until purged."""
    if worker.cleanup_at is None or worker.cleanup_at > event.at:
        raise Conflict(f"{worker.id} is to be cleaned up at {worker.cleanup_at}", found=worker)
    after = replace(worker, cleanup_at=None, due_at=None, purge_at=event.purge_at)
    return after, (Guard("cleanup_at", "is", event.cleanup_at),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Event):
    """The worker itself says that it has stopped, with the token and the epoch of its last answer."""

    token: int
    epoch: int
    purge_at: datetime


@transition(ACTIVE, INACTIVE, to=CLEANED_UP)
def stop(worker: Worker, event: Stopped) -> Step:
    """Terminal, at once: the worker has stopped and says so. Its jobs are owed to others, as after a loss."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescheduled(Event):
    epoch: int


@transition(INACTIVE, to=INACTIVE)
def settle_inactive(worker: Worker, event: Rescheduled) -> Step:
    """No job of the lost epoch is bound to it any more."""
    return replace(worker, settled_epoch=event.epoch), ()


@transition(ACTIVE, to=ACTIVE)
def settle_active(worker: Worker, event: Rescheduled) -> Step:
    """As for an inactive one: it came back before its old jobs were given away."""
    return replace(worker, settled_epoch=event.epoch), ()


@transition(CLEANED_UP, to=CLEANED_UP)
def settle_cleaned_up(worker: Worker, event: Rescheduled) -> Step:
    """As for an inactive one: it was cleaned up before its old jobs were given away."""
    return replace(worker, settled_epoch=event.epoch), ()


STEPS = (
    register,
    heartbeat,
    resurrect,
    lose_lease,
    rearm,
    clean_up,
    stop,
    settle_inactive,
    settle_active,
    settle_cleaned_up,
)


class Code(StrEnum):
    """Why a beat is rejected; nothing of it was applied."""

    MISMATCH = "token-mismatch"  # delayed, doubled, or another process's: the answer carries the current token
    CLEANED_UP = "cleaned-up"  # terminal: take a new key
    RETIRED = "retired"  # its instance is being ended: stop
    UNKNOWN = "unknown-worker"  # a token for a key that is not known (any more): take a new key


@dataclass(frozen=True, slots=True)
class Accepted:
    """A beat that counts. A replay is the answer once more to a request that was answered before: nothing moved."""

    worker: Worker
    resurrected: bool = False
    replayed: bool = False


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
        return Accepted(stored, replayed=True)
    if beat.token != stored.token:
        return Rejected(Code.MISMATCH, stored.state, stored.token)
    if stored.state is INACTIVE:
        retired = stored.fate is Fate.RETIRE
        return Rejected(Code.RETIRED, stored.state, stored.token) if retired else resurrect(stored, beat)
    return heartbeat(stored, beat)


@dataclass(frozen=True, slots=True)
class ExpireLease:
    """Due at `due_at`, and void if the lease has been renewed since."""

    worker_id: str
    due_at: datetime

    def still_due(self, worker: Worker, now: datetime) -> bool:
        return worker.state is ACTIVE and worker.deadline == self.due_at and self.due_at <= now


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Due at `due_at`, and void if the worker has come back since, even if it is inactive again."""

    worker_id: str
    due_at: datetime

    def still_due(self, worker: Worker, now: datetime) -> bool:
        return worker.state is INACTIVE and worker.cleanup_at == self.due_at and self.due_at <= now


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
