"""Control: what sweepers must agree on before they declare workers lost.

There is one record per failure domain, and one named `ingest` for the whole store. Any number of sweepers change them
with the usual conditional writes. A sweeper that loses the race declares no worker lost in this pass.

    ingest      when any process last accepted a beat. A gap means that the control plane was away, not that the workers
                died: every worker gets a fresh lease, counted from `recovered_at`.
    a domain    how many losses may still be declared in it (`budget`, refilled with time), and whether it holds back.
"""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass
from bullpen.model.transition import Event, Guard, steps_in, transition

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


class Ingested(Event):
    """Beats are accepted. `recovered` if none was accepted for longer than the gap allows."""

    recovered: bool = False


@transition(ABSENT, OPEN, to=OPEN, silent=True)
def ingest(control: Control, event: Ingested) -> Step:
    """Beats arrive. After a gap, every lease is counted from here."""
    recovered = event.at if event.recovered else control.recovered_at
    return replace(control, ingest_at=event.at, recovered_at=recovered), ()


class Spent(Event):
    budget: float  # what is left


@transition(ABSENT, OPEN, to=OPEN, silent=True)
def spend(control: Control, event: Spent) -> Step:
    """One more loss may be declared: it is taken from the shared budget of the domain."""
    return replace(control, budget=event.budget, budget_at=event.at), ()


class Holding(Event):
    pass


@transition(ABSENT, OPEN, to=HELD)
def hold(control: Control, event: Holding) -> Step:
    """All workers of the domain are silent: the fault is more likely in the control plane. No loss is declared."""
    return replace(control, held_since=event.at, why=event.why), ()


@transition(HELD, to=OPEN)
def lift(control: Control, event: Holding) -> Step:
    """Workers beat again, or the hold lasted long enough. Leases are counted from here."""
    return replace(control, held_since=None, why=event.why, recovered_at=event.at, budget_at=event.at), ()


STEPS = steps_in(globals())
