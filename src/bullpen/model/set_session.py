"""SetSession: which process listens to a scale set, and what it has heard.

                 take                   renew, open, record_message, record_failure
    ┌──────┐ ──────────▶ ┌──────┐ ─────┐
    │ free │             │ held │      │     take, by another process: the record stood still for a whole lease
    └──────┘ ◀────────── └──────┘ ◀────┘
                yield

The CI allows one session for each set, so of all processes one *holds* the set. The record is the lease: its holder
changes it every few seconds, and a process that has seen the same version for a whole lease, on its own monotonic
clock, may take it. No wall clock decides: the times in the record are for people.

What keeps a paused holder harmless: every `take` draws a round and raises the epoch. Each later write of the old holder
names its own epoch and fails, so it learns that it must stop; and the CI refuses its session. A holder whose answer was
lost recognises its write by the round.

What the record has about jobs outlives its holder: the next one needs it, and `warm` launches machines for what is
`missing`. `offered` are jobs that the CI offers and announces only once. `started` are jobs that the CI gave to a
runner whose agent has not reported them yet: if that agent dies before its first beat, no other record knows which job
it had.
"""

from dataclasses import fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits
from bullpen.model.texts import fitting
from bullpen.model.transition import Check, Event, Guard, steps_in, transition

ID_PREFIX = limits.SESSION_PREFIX
"""Before the set's name: the stories of all records are found by id alone."""
WAITING_LIMIT = 50  # jobs: people read them
STARTED_LIMIT = 200  # jobs: an agent reports its job within seconds, and the record must fit into an item
OFFERED_LIMIT = 500  # jobs; of more, the oldest are forgotten: another set has most of those
TEXT_LIMIT = 200  # bytes of UTF-8 of each text about a job: a name may be of any length
WHY_LIMIT = 500  # characters


class State(StrEnum):
    ABSENT = "absent"  # never stored
    FREE = "free"
    HELD = "held"


ABSENT, FREE, HELD = State


@dataclass(frozen=True, slots=True)
class JobCounts:
    """How many jobs a set has, by the CI's count in one snapshot."""

    assigned: int = 0  # those that wait for a runner, and those that run
    running: int = 0
    available: int = 0  # on offer, and not accepted
    acquired: int = 0  # accepted, and not assigned


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits for a runner: since when the holder has known it, and why it still waits.

    One without an id is known by the CI's count alone. `lapses` is how often the CI has taken it back because no runner
    took it in time, and `taken_back_at` when it last did, until it assigns the job again.
    """

    id: str
    since: datetime
    repository: str = ""
    run: str = ""
    name: str = ""
    why: str = ""
    lapses: int = 0
    taken_back_at: datetime | None = None
    cause: str = ""  # of `why`, as `model.wait` names it


@dataclass(frozen=True, slots=True)
class StartedJob:
    """A job that the CI gave to a runner, until a beat of the runner's agent names it."""

    id: str
    runner: str  # its name at the CI
    repository: str = ""
    run: str = ""
    name: str = ""
    at: datetime | None = None


J = TypeVar("J", WaitingJob, StartedJob)


@dataclass(frozen=True, slots=True)
class SetSession:
    """The session of one set. The times are for people, and decide nothing."""

    id: str
    state: State
    version: int
    holder: str = ""  # which process
    round: str = ""
    epoch: int = 0
    ci_session: str = ""  # the CI's id of the session that was opened last and may still be open
    taken_at: datetime | None = None
    beat_at: datetime | None = None
    opened_at: datetime | None = None
    heard_at: datetime | None = None  # when the statistics arrived
    statistics: JobCounts | None = None
    message: int = 0  # the CI's id of the last message of this session
    missing: int = 0  # runners that the set lacks, and that the pool launches machines for
    phantom: int = 0  # jobs that the CI counts, and that no runner gets
    waiting: tuple[WaitingJob, ...] = ()
    started: tuple[StartedJob, ...] = ()
    failing_since: datetime | None = None
    why: str = ""  # why it fails
    dropped: int = 0  # times that a runner registered again because the CI had dropped it while it was idle
    offered: tuple[int, ...] = ()  # requests of jobs that the CI offers, and that the set had no room for, oldest first

    @property
    def set_name(self) -> str:
        return self.id.removeprefix(ID_PREFIX)


def session_id(set_name: str) -> str:
    return f"{ID_PREFIX}{set_name}"


def absent(set_name: str) -> SetSession:
    return SetSession(id=session_id(set_name), state=ABSENT, version=0)


def must_be_held(session: SetSession) -> Check:
    """The condition of a write that only the holder may make: it still holds the set, as in this record."""
    return Check(SetSession, session.id, (Guard("state", "is", HELD), Guard("round", "is", session.round)))


Step = tuple[SetSession, tuple[Guard, ...]]


class SessionTaken(Event):
    """`watched` is the version that the taker has seen, without any other, for `stood_still` seconds on its monotonic
    clock. A session that is free needs no such proof."""

    holder: str
    round: str
    lease: float
    watched: int = 0
    stood_still: float = 0.0


@transition(ABSENT, FREE, HELD, to=HELD, draws_round=True)
def take(session: SetSession, event: SessionTaken) -> Step:
    """A process becomes the holder. What was heard before stays, and so does the CI's session, which it closes."""
    if session.state is HELD and event.watched != session.version:
        raise Conflict(f"{session.id}: {session.holder} has renewed it since it was watched", found=session)
    if session.state is HELD and event.stood_still < event.lease:
        watched = f"it stood still for {event.stood_still:g} of {event.lease:g} s"
        raise Conflict(f"{session.id}: {session.holder} may hold it, {watched}", found=session)
    after = replace(
        session,
        holder=event.holder,
        round=event.round,
        epoch=session.epoch + 1,
        taken_at=event.at,
        beat_at=event.at,
        failing_since=None,
        why="",
        dropped=0,
    )
    return after, ()


class HolderEvent(Event):
    """Something that the holder did, in its own epoch."""

    holder: str
    epoch: int


class SessionRenewed(HolderEvent):
    """What is None stays as it was. `waiting` begins with the job that waits longest, `started` with the oldest."""

    missing: int | None = None
    phantom: int | None = None
    waiting: tuple[WaitingJob, ...] | None = None
    started: tuple[StartedJob, ...] | None = None
    dropped: int | None = None


@transition(HELD, to=HELD, silent=True)
def renew(session: SetSession, event: SessionRenewed) -> Step:
    """A sign of life: the version changes."""
    return _told(session, event), _own(event)


class SessionOpened(HolderEvent):
    ci_session: str
    statistics: JobCounts | None = None


@transition(HELD, to=HELD)
def open_(session: SetSession, event: SessionOpened) -> Step:
    """The CI has opened a session. The ids of its messages begin again."""
    after = replace(
        session,
        ci_session=event.ci_session,
        message=0,
        beat_at=event.at,
        opened_at=event.at,
        statistics=event.statistics or session.statistics,
        heard_at=event.at if event.statistics else session.heard_at,
        failing_since=None,
        why="",
    )
    return after, _own(event)


class MessageRecorded(SessionRenewed):
    """`message` is 0 if the statistics were asked for, and came without one."""

    statistics: JobCounts
    message: int = 0
    offered: tuple[int, ...] | None = None


@transition(HELD, to=HELD, silent=True)
def record_message(session: SetSession, event: MessageRecorded) -> Step:
    """What the CI reports is durable: the message may be acknowledged. Of two deliveries of a message one lands."""
    if event.message and event.message <= session.message:
        raise Conflict(f"{session.id}: message {event.message} was recorded before", found=session)
    after = replace(
        _told(session, event),
        statistics=event.statistics,
        heard_at=event.at,
        message=event.message or session.message,
        offered=session.offered if event.offered is None else event.offered[-OFFERED_LIMIT:],
        failing_since=None,
        why="",
    )
    return after, _own(event)


class SessionFailed(HolderEvent):
    """`why` is the reason."""


@transition(HELD, to=HELD)
def record_failure(session: SetSession, event: SessionFailed) -> Step:
    """The holder cannot listen, for another reason than before."""
    after = replace(
        session, beat_at=event.at, failing_since=session.failing_since or event.at, why=event.why[:WHY_LIMIT]
    )
    return after, _own(event)


class SessionYielded(HolderEvent):
    closed: bool  # the CI's session, by the holder; otherwise the next holder closes it


@transition(HELD, to=FREE)
def yield_(session: SetSession, event: SessionYielded) -> Step:
    """The holder stops, or cannot reach the CI: another process may take the session at once."""
    return replace(session, holder="", ci_session="" if event.closed else session.ci_session), _own(event)


STEPS = steps_in(globals())


def _own(event: HolderEvent) -> tuple[Guard, ...]:
    return Guard("holder", "is", event.holder), Guard("epoch", "is", event.epoch)


def _told(session: SetSession, event: SessionRenewed) -> SetSession:
    after = replace(session, beat_at=event.at)
    if event.missing is not None:
        after = replace(after, missing=event.missing)
    if event.phantom is not None:
        after = replace(after, phantom=event.phantom)
    if event.dropped is not None:
        after = replace(after, dropped=event.dropped)
    if event.waiting is not None:
        after = replace(after, waiting=fitting_waiting(event.waiting))
    if event.started is not None:
        after = replace(after, started=fitting_started(event.started))
    return after


def fitting_waiting(jobs: tuple[WaitingJob, ...]) -> tuple[WaitingJob, ...]:
    """As the record keeps them."""
    return tuple(map(_cut, jobs[:WAITING_LIMIT]))


def fitting_started(jobs: tuple[StartedJob, ...]) -> tuple[StartedJob, ...]:
    """As the record keeps them."""
    return tuple(map(_cut, jobs[-STARTED_LIMIT:]))


def _cut(job: J) -> J:
    """With texts that fit: 250 jobs of five texts stay below the 400 KB of an item of DynamoDB."""
    texts = {field.name: value for field in fields(job) if isinstance(value := getattr(job, field.name), str)}
    cut = {name: fitting(text, TEXT_LIMIT) for name, text in texts.items()}
    changed: dict[str, Any] = {name: text for name, text in cut.items() if text != texts[name]}
    return replace(job, **changed) if changed else job
