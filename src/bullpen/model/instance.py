"""Instance: a machine of the pool, and every way in which its record may change.

                 claim            commit             release
    ┌──────┐ ──────────▶ ┌─────────┐ ──────▶ ┌─────────┐ ──────────┐
    │ idle │             │ claimed │         │ running │           ▼
    └──────┘ ◀────────── └─────────┘         └─────────┘     idle, not attested
        ▲     roll_back (not attested)           ▲                 │
        │ adopt                                  │ commit          │ offer: cleaned and attested
    ┌─────────┐ ─────────────────────────────────┘                 ▼
    │ created │                                              idle, on offer
    └─────────┘            any live state ── expire ──▶ terminated ── done

Every change of owner (register, claim, roll_back, release) draws a random *round*. It is the claim's nonce and the
fence of the attestation, and a writer whose answer was lost recognises its own write by it. Only `offer`, `spare`,
`drain` and `expire` change an idle record that is not attested, and only `offer` attests it: an uncleaned instance is
never claimed.

`drain` (not drawn) leaves an instance in its state and takes its image generation, so that no claim accepts it: its run
goes on, and when it was given back and cleaned, it is ended instead of offered.

An instance that serves a scale set takes a few steps of its own: see set_member.py.
"""

from dataclasses import fields, replace
from datetime import datetime, timedelta
from enum import StrEnum

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model.provision import Provision
from bullpen.model.provision import State as ProvisionState
from bullpen.model.signal import Kind, Signal
from bullpen.model.ticket import DRAINED_GENERATION, Requirements, Ticket, UsageClass
from bullpen.model.transition import Debt, Event, Guard, steps_in, taking, transition


class State(StrEnum):
    ABSENT = "absent"  # never stored: what a record is before it is registered
    CREATED = "created"
    IDLE = "idle"
    CLAIMED = "claimed"
    RUNNING = "running"
    TERMINATED = "terminated"


ABSENT, CREATED, IDLE, CLAIMED, RUNNING, TERMINATED = State
LIVE = (CREATED, IDLE, CLAIMED, RUNNING)
DRAINED = DRAINED_GENERATION
ON_TICKET = tuple(field.name for field in fields(Ticket) if field.name != "instance_id")
"""The fields that a record and its ticket have under the same name."""

UNBOOKED_STAYS = timedelta(days=1)
"""How long after its `purge_at` an instance stays whose time is not booked: only there its story still is."""


class InstanceDebt(StrEnum):
    TERMINATE = "terminate"  # end the machine, then `done`
    OFFER = "await-and-offer"  # wait for the attestation, then `offer`; none in time: `expire`


class InstanceFate(StrEnum):
    """What became of an instance that was given up."""

    TERMINATED = "terminated"  # its end is certain
    TERMINATING = "terminating"  # its end is written down and owed
    OFFERED = "offered"  # clean and on offer again
    CLEANING = "cleaning"  # given back; its attestation is awaited
    BUSY = "busy"  # its CI gave it a job: it goes back once that has ended
    NOT_OURS = "not ours"  # another process moved it in between: left alone


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine. `threshold` is until when it may stay in its state; `attested` means clean and on offer."""

    id: str
    state: State
    version: int
    threshold: datetime
    run_id: str = ""
    round: str = ""
    provision_id: str = ""
    attested: bool = False
    trust_domain: str = ""
    image_generation: int = 1
    resource_class: str = ""
    instance_type: str = ""
    usage_class: UsageClass = UsageClass.ON_DEMAND
    cpu: int = 0
    mem: int = 0
    offered_at: datetime | None = None
    owes: Debt | None = None
    purge_at: datetime | None = None
    repository: str = ""  # the repository of its run, where the CI is GitHub

    @property
    def due_at(self) -> datetime | None:
        """When a process must check this record next; None once nothing is left to do."""
        if self.state is TERMINATED:
            return self.owes.due_at if self.owes else None
        return min(self.threshold, self.owes.due_at) if self.owes else self.threshold

    @property
    def is_claimable(self) -> bool:
        return self.state is IDLE and self.attested

    @property
    def is_drained(self) -> bool:
        """It takes no new run, and is ended once it is free."""
        return self.image_generation == DRAINED

    @property
    def is_pending(self) -> bool:
        """Not yet on offer, and on its way there without an owner: being cleaned, or pre-warmed and booting."""
        return (self.state is IDLE and not self.attested) or (self.state is CREATED and not self.run_id)

    def ticket(self) -> Ticket:
        return Ticket(self.id, **{name: getattr(self, name) for name in ON_TICKET})

    @classmethod
    def from_ticket(cls, ticket: Ticket) -> "Instance":
        """The record that a ticket with a version describes, as far as a claim needs it: so a claim needs no read."""
        if ticket.version is None:
            raise ValueError(f"the ticket of {ticket.instance_id} carries no version: read the record")
        offered = {name: getattr(ticket, name) for name in ON_TICKET}
        offered["image_generation"] = ticket.image_generation or 1
        return cls(ticket.instance_id, IDLE, attested=True, **offered)


def absent(instance_id: str, at: datetime) -> Instance:
    """An instance before `register`: the store has no record of it."""
    return Instance(id=instance_id, state=ABSENT, version=0, threshold=at)


Step = tuple[Instance, tuple[Guard, ...]]


class Registered(Event):
    run_id: str  # empty for an instance that is launched ahead of any run
    round: str
    provision_id: str
    until: datetime
    resource_class: str
    instance_type: str
    usage_class: UsageClass
    cpu: int
    mem: int
    trust_domain: str
    image_generation: int
    repository: str = ""


@transition(ABSENT, to=CREATED, draws_round=True)
def register(instance: Instance, event: Registered) -> Step:
    """The machine was launched. Written together with the answer of its provision's fleet."""
    return taking(instance, event, threshold=event.until), ()


class Adopted(Event):
    signal: Signal
    until: datetime


@transition(CREATED, to=IDLE)
def adopt(instance: Instance, event: Adopted) -> Step:
    """A pre-warmed instance has booted and goes on offer. No run has used it."""
    _require_proof(instance, event.signal, Kind.OK)
    _require_in_use(instance)
    after = replace(instance, attested=True, threshold=event.until, offered_at=event.at)
    return after, (Guard("run_id", "is", ""), Guard("round", "is", event.signal.round))


class Claimed(Event):
    run_id: str
    round: str
    provision_id: str
    needs: Requirements
    until: datetime


@transition(IDLE, to=CLAIMED, draws_round=True, always=("threshold", "trust_domain", "provision_id"))
def claim(instance: Instance, event: Claimed) -> Step:
    """A run takes the instance. Of any number of claims of the same offer, one lands."""
    needs = event.needs
    after = taking(
        instance,
        event,
        threshold=event.until,
        attested=False,
        # Written by the claim and never cleared: the domain of past jobs decides which runs may reuse the instance.
        trust_domain=needs.trust_domain,
        repository=needs.repository,
    )
    return after, (
        Guard("run_id", "is", ""),
        Guard("attested", "is", True),
        Guard("threshold", "after", event.at),
        Guard("trust_domain", "in", needs.acceptable_domains),
        Guard("image_generation", "is", needs.image_generation),
    )


class Committed(Event):
    round: str
    provision: Provision
    until: datetime


@transition(CLAIMED, CREATED, to=RUNNING)
def commit(instance: Instance, event: Committed) -> Step:
    """The provision is committed, and its decision is carried out: the member runs."""
    decided = event.provision
    if decided.state is not ProvisionState.COMMITTED or instance.id not in decided.members:
        raise Conflict(f"{instance.id} is not a member of a committed provision ({decided.id} is {decided.state})")
    if not instance.run_id:
        raise Conflict(f"{instance.id} was launched ahead of any run: it is adopted, not committed", found=instance)
    after = replace(instance, threshold=event.until)
    return after, (Guard("round", "is", event.round), Guard("provision_id", "is", decided.id))


class RolledBack(Event):
    old_round: str
    round: str
    until: datetime
    offer_due: datetime


@transition(CLAIMED, to=IDLE, draws_round=True)
def roll_back(instance: Instance, event: RolledBack) -> Step:
    """The claim is given up. The instance is cleaned before it goes on offer again."""
    return _given_back(instance, event), (Guard("round", "is", event.old_round),)


class Released(Event):
    run_id: str
    round: str
    until: datetime
    offer_due: datetime


@transition(RUNNING, to=IDLE, draws_round=True)
def release(instance: Instance, event: Released) -> Step:
    """The run is over. The runner deregisters, and the agent cleans and attests."""
    return _given_back(instance, event), (Guard("run_id", "is", event.run_id),)


class Offered(Event):
    signal: Signal
    until: datetime


@transition(IDLE, to=IDLE)
def offer(instance: Instance, event: Offered) -> Step:
    """The agent has attested, in this round, that the instance is clean: it goes on offer."""
    _require_proof(instance, event.signal, Kind.CLEAN_OK)
    _require_in_use(instance)
    after = replace(instance, attested=True, threshold=event.until, offered_at=event.at, owes=None)
    return after, (Guard("attested", "is", False), Guard("round", "is", event.signal.round))


class Kept(Event):
    until: datetime


@transition(IDLE, to=IDLE)
def keep(instance: Instance, event: Kept) -> Step:
    """An instance on offer stays so for longer. The version changes, so its old ticket no longer claims it."""
    return replace(instance, threshold=event.until), (Guard("attested", "is", True),)


class Spared(Event):
    until: datetime


@transition(CREATED, CLAIMED, IDLE, to=None)
def spare(instance: Instance, event: Spared) -> Step:
    """The CI gave it a job before it could be given back: it stays as it is until the job has ended."""
    after = replace(instance, threshold=event.until)
    return after, (Guard("attested", "is", False), Guard("round", "is", instance.round))


class Drained(Event):
    pass


@transition(CREATED, IDLE, CLAIMED, RUNNING, to=None)
def drain(instance: Instance, event: Drained) -> Step:
    """It takes no new run, and is ended once it is free. One on offer is free already: it is expired instead."""
    if instance.is_drained:
        raise Conflict(f"{instance.id} is drained already", found=instance)
    return replace(instance, image_generation=DRAINED), (Guard("attested", "is", False),)


class Expired(Event):
    round: str


@transition(CREATED, IDLE, CLAIMED, RUNNING, to=TERMINATED)
def expire(instance: Instance, event: Expired) -> Step:
    """Marked first, terminated after: a crash in between leaves a debt, not a leak. The threshold stays, to show
    whether it had passed."""
    if instance.threshold > event.at and instance.round != event.round:
        raise Conflict(f"{instance.id} belongs to another round and is not past its threshold", found=instance)
    after = replace(instance, attested=False, owes=Debt(InstanceDebt.TERMINATE, event.at))
    return after, (Guard("round", "is", instance.round),)


class Ended(Event):
    purge_at: datetime


@transition(TERMINATED, to=TERMINATED)
def done(instance: Instance, event: Ended) -> Step:
    """The end of the machine is confirmed. The record may be purged from `purge_at` on."""
    return replace(instance, owes=None, purge_at=event.purge_at), ()


STEPS = steps_in(globals())


def _given_back(instance: Instance, event: RolledBack | Released) -> Instance:
    return replace(
        instance,
        run_id="",
        round=event.round,
        provision_id="",
        attested=False,
        threshold=event.until,
        owes=Debt(InstanceDebt.OFFER, event.offer_due),
        repository="",
    )


def _require_in_use(instance: Instance) -> None:
    if instance.is_drained:
        raise Conflict(f"{instance.id} is drained: it is ended, not offered", found=instance)


def _require_proof(instance: Instance, signal: Signal, kind: Kind) -> None:
    if signal.instance_id != instance.id or not signal.proves(kind, instance.round):
        raise Conflict(
            f"{instance.id}: {signal.kind} of round {signal.round} does not prove {kind} of its round", found=instance
        )
