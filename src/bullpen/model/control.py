"""Control: what sweepers must agree on before they declare workers lost.

One record per failure domain, and one named `ingest` for the whole store. Any number of sweepers change it by the same
conditional writes as everything else; who loses the race does not expire anybody this time.

    ingest      when a beat was last accepted anywhere. A gap means that we were away, not that they died: everybody
                gets a fresh lease, counted from `recovered_at`.
    a domain    how many losses it may still declare (`budget`, refilled with time), and until when it holds back.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from bullpen.model.transition import Event, Guard, transition

INGEST = "ingest"


class State(StrEnum):
    ABSENT = "absent"  # never stored
    OPEN = "open"
    HELD = "held"


ABSENT, OPEN, HELD = State


@dataclass(frozen=True, slots=True)
class Control:
    id: str
    state: State
    version: int
    ingest_at: datetime | None = None
    recovered_at: datetime | None = None
    budget: float = 0.0
    budget_at: datetime | None = None
    held_since: datetime | None = None
    why: str = ""


def absent(name: str) -> Control:
    return Control(id=name, state=ABSENT, version=0)


Step = tuple[Control, tuple[Guard, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested(Event):
    """Beats are being accepted. `recovered` if they had not been for longer than the gap allows."""

    recovered: bool = False


@transition(ABSENT, OPEN, to=OPEN, silent=True)
def ingest(control: Control, event: Ingested) -> Step:
    """Beats arrive; after a gap everybody's lease is counted anew."""
    recovered = event.at if event.recovered else control.recovered_at
    return replace(control, ingest_at=event.at, recovered_at=recovered), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent(Event):
    budget: float  # what is left


@transition(ABSENT, OPEN, to=OPEN, silent=True)
def spend(control: Control, event: Spent) -> Step:
    """One more loss may be declared: taken from the shared budget of the domain."""
    return replace(control, budget=event.budget, budget_at=event.at), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding(Event):
    pass


@transition(ABSENT, OPEN, to=HELD)
def hold(control: Control, event: Holding) -> Step:
    """Everybody is silent: it is more likely us than them."""
    return replace(control, held_since=event.at, why=event.why), ()


@transition(HELD, to=OPEN)
def lift(control: Control, event: Holding) -> Step:
    """They are back, or we have waited long enough; leases are counted from here."""
    return replace(control, held_since=None, why=event.why, recovered_at=event.at, budget_at=event.at), ()


STEPS = (ingest, spend, hold, lift)
