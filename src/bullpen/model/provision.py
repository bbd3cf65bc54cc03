"""Provision: one request for N instances, and the single write that decides it.

        wait, admit, renew, plan_fleet, answer_fleet
                 ┌────┐
                 ▼    │     commit, with the N members       settle             release or revoke, settle
    ─ open_ ─▶ ┌────────┐ ─────────────────▶ ┌───────────┐ ─────────▶ members run ─────────────────▶ nothing owed
               │  open  │                    │ committed │
               └────────┘ ─────────────────▶ └───────────┘
                            abort            ┌───────────┐   settle
                                             │  aborted  │ ─────────▶ nothing owed
                                             └───────────┘

If the process that opened a provision dies, any other process can finish its work from this record. A claimed or
created member of a committed provision is rolled forward. The instances of an aborted one are given back. An open one
past its deadline is aborted first. The members of a released one are given back. So "all or nothing" is one conditional
write, not a sequence of them. A member may be lost before its own write. If the call cannot replace it, the commit is
revoked, and the members that run are given back.

A provision that waits for room under a cap is open, holds nothing, and has a place in the queue of that cap. The place
is a lease: if its process is killed, it leaves the queue when the place runs out.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model.ticket import Requirements
from bullpen.model.transition import Debt, Event, Guard, steps_in, transition


class State(StrEnum):
    ABSENT = "absent"  # never stored
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


ABSENT, OPEN, COMMITTED, ABORTED = State


class ProvisionDebt(StrEnum):
    SETTLE = "settle"  # carry the decision out on every instance
    RELEASE = "release"  # give every member back: the run is over


class FleetState(StrEnum):
    PLANNED = "planned"  # the token is stored, the call may or may not have been made
    ANSWERED = "answered"  # every launched instance is registered


@dataclass(frozen=True, slots=True)
class Fleet:
    """One request to the compute engine. Its token is stored before the call, so a repeat launches nothing twice."""

    client_token: str
    count: int  # requested; once answered, launched
    state: FleetState = FleetState.PLANNED
    lacking: int = 0  # machines that the engine was asked for and did not launch


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the queue of a cap, named as in the settings. First come, first served, while `until` is not past."""

    cap: str
    since: datetime
    until: datetime


class Origin(StrEnum):
    SELECTED = "selected"  # reused from the pool
    CREATED = "created"  # launched for this run


class RunState(StrEnum):
    """Where a run is, as its provisions and instances tell."""

    WAITING = "waiting"
    PROVISIONING = "provisioning"
    RUNNING = "running"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True)
class Provision:
    """One call of provision. An empty `run_id` warms the pool ahead of any run."""

    id: str
    state: State
    version: int
    run_id: str
    want: int
    needs: Requirements
    deadline: datetime
    max_runtime: float = 0.0
    fleets: tuple[Fleet, ...] = ()
    members: tuple[str, ...] = ()
    reason: str = ""
    owes: Debt | None = None
    purge_at: datetime | None = None
    place: Place | None = None

    @property
    def is_waiting(self) -> bool:
        """True while it is in a queue: it waits, or was admitted and does not yet have what it waited for."""
        return self.state is OPEN and self.place is not None

    @property
    def waits_for(self) -> str:
        """The cap that it waits for; empty if it is in no queue."""
        return self.place.cap if self.place and self.state is OPEN else ""

    def asked_at(self, patience: float) -> datetime:
        """When it was asked for. The record has its deadline only, which is `patience` seconds later."""
        return self.place.since if self.place is not None else self.deadline - timedelta(seconds=patience)

    @property
    def is_over(self) -> bool:
        """True while members are owed back to the pool."""
        return self.owes is not None and self.owes.kind is ProvisionDebt.RELEASE

    @property
    def is_revoked(self) -> bool:
        """True if its members are given back although the run is not over."""
        return self.state is COMMITTED and self.reason != ""

    @property
    def is_closed(self) -> bool:
        """True once nothing is owed and no instance belongs to it."""
        return self.state is not OPEN and self.owes is None and not self.members

    @property
    def due_at(self) -> datetime | None:
        """When another process may take over: an open one at its deadline, one in a queue when its place runs out, a
        decided one when its debt is due."""
        if self.state is OPEN:
            return min(self.deadline, self.place.until) if self.place else self.deadline
        return self.owes.due_at if self.owes else None


Step = tuple[Provision, tuple[Guard, ...]]


def absent(
    provision_id: str, run_id: str, want: int, needs: Requirements, deadline: datetime, max_runtime: float
) -> Provision:
    """The request, before `open_` writes it."""
    return Provision(provision_id, ABSENT, 0, run_id, want, needs, deadline, max_runtime)


class Opened(Event):
    pass


@transition(ABSENT, to=OPEN)
def open_(provision: Provision, event: Opened) -> Step:
    """The request is stored before anything is acquired for it."""
    return provision, ()


class Renewed(Event):
    until: datetime | None = None  # of its place in a queue, if it has one


@transition(OPEN, to=OPEN, silent=True)
def renew(provision: Provision, event: Renewed) -> Step:
    """A sign of life: the version changes, and its place in a queue lasts longer. A record that stands still for long
    belongs to a dead process."""
    if provision.place is None or event.until is None:
        return provision, ()
    return replace(provision, place=replace(provision.place, until=event.until)), ()


class Waited(Event):
    place: Place
    deadline: datetime


@transition(OPEN, to=OPEN)
def wait(provision: Provision, event: Waited) -> Step:
    """It waits for room under a cap, and holds nothing. A fleet that was planned but not launched is dropped."""
    fleets = [
        replace(fleet, state=FleetState.ANSWERED, count=0) if fleet.state is FleetState.PLANNED else fleet
        for fleet in provision.fleets
    ]
    return replace(provision, place=event.place, deadline=event.deadline, fleets=tuple(fleets)), ()


class Admitted(Event):
    deadline: datetime
    until: datetime


@transition(OPEN, to=OPEN)
def admit(provision: Provision, event: Admitted) -> Step:
    """It is its turn: it acquires until the deadline, and keeps its place until it has what it waited for."""
    if provision.place is None:
        raise Conflict(f"{provision.id} is in no queue", found=provision)
    return replace(provision, deadline=event.deadline, place=replace(provision.place, until=event.until)), ()


class FleetPlanned(Event):
    client_token: str
    count: int


@transition(OPEN, to=OPEN)
def plan_fleet(provision: Provision, event: FleetPlanned) -> Step:
    """The token of a fleet request is stored before the request is made."""
    return replace(provision, fleets=(*provision.fleets, Fleet(event.client_token, event.count))), ()


class FleetAnswered(Event):
    client_token: str
    launched: int | None = None  # None: all of them
    was_asked: bool = True  # whether the engine was asked at all: a cap may have left no room


@transition(OPEN, to=OPEN)
def answer_fleet(provision: Provision, event: FleetAnswered) -> Step:
    """Every instance that the fleet launched is registered in the same write. They count under the caps from now on, so
    the place in a queue is given up."""
    if event.client_token not in [fleet.client_token for fleet in provision.fleets]:
        raise Conflict(f"{provision.id} planned no fleet {event.client_token}", found=provision)
    fleets = [
        replace(
            fleet,
            state=FleetState.ANSWERED,
            # Machines that it did not launch are dropped, or come with a further fleet.
            count=fleet.count if event.launched is None else event.launched,
            lacking=max(fleet.count - event.launched, 0) if event.was_asked and event.launched is not None else 0,
        )
        if fleet.client_token == event.client_token
        else fleet
        for fleet in provision.fleets
    ]
    place = provision.place if event.launched == 0 else None
    return replace(provision, fleets=tuple(fleets), place=place), ()


class Decided(Event):
    members: tuple[str, ...]
    settle_due: datetime


@transition(OPEN, to=COMMITTED)
def commit(provision: Provision, event: Decided) -> Step:
    """All members are verified: the run gets them. The writes on the members only carry this out."""
    owes = Debt(ProvisionDebt.SETTLE, event.settle_due)
    return replace(provision, members=event.members, owes=owes, place=None), ()


class Aborted(Event):
    settle_due: datetime


@transition(OPEN, to=ABORTED)
def abort(provision: Provision, event: Aborted) -> Step:
    """The request is not met: everything acquired is given back."""
    owes = Debt(ProvisionDebt.SETTLE, event.settle_due)
    return replace(provision, reason=event.why, owes=owes, place=None), ()


class Concluded(Event):
    settle_due: datetime


@transition(COMMITTED, to=COMMITTED)
def release(provision: Provision, event: Concluded) -> Step:
    """The run is over. Written before any member is given back, so that an interrupted release is finished."""
    return replace(provision, reason="", owes=Debt(ProvisionDebt.RELEASE, event.settle_due), purge_at=None), ()


class Revoked(Event):
    settle_due: datetime


@transition(COMMITTED, to=COMMITTED)
def revoke(provision: Provision, event: Revoked) -> Step:
    """A member was lost, and could not be replaced: every member is given back. The run goes on with its jobs and the
    members of other calls."""
    if provision.is_over or not provision.members:
        raise Conflict(f"{provision.id} was released", found=provision)
    return replace(provision, reason=event.why, owes=Debt(ProvisionDebt.RELEASE, event.settle_due), purge_at=None), ()


class Postponed(Event):
    due: datetime


@transition(COMMITTED, ABORTED, to=None, silent=True)
def postpone(provision: Provision, event: Postponed) -> Step:
    """An instance that should be given back executes a job of GitHub: the debt stays, and is checked again later."""
    if provision.owes is None:
        raise Conflict(f"{provision.id} owes nothing", found=provision)
    return replace(provision, owes=replace(provision.owes, due_at=event.due)), ()


class Settled(Event):
    purge_at: datetime


@transition(COMMITTED, to=COMMITTED)
def settle_committed(provision: Provision, event: Settled) -> Step:
    """Every member runs or was released, and every surplus instance is given back: nothing is owed."""
    # Once the run is over, they belong to others.
    members = () if provision.is_over else provision.members
    return replace(provision, members=members, owes=None, purge_at=event.purge_at), ()


@transition(ABORTED, to=ABORTED)
def settle_aborted(provision: Provision, event: Settled) -> Step:
    """Everything acquired is given back: nothing is owed."""
    return replace(provision, owes=None, purge_at=event.purge_at), ()


STEPS = steps_in(globals())
