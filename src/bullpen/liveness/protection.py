"""Protection against declaring many workers lost that are not: the fault is more often here than with all of them.

    restart grace   a process that receives beats notes that in the control record `ingest`. A gap means that no beat
                    could be received: every lease counts again from `recovered_at`, without a write to any worker.
    confirm         a suspect must stand still for a beat and a bit more, on the sweeper's own monotonic clock, so a
                    wall clock that jumps condemns no worker (see lease.py).
    evidence        a machine known to have ended needs none of the following, and does not count there.
    brake           more than `brake-fraction` of a failure domain silent or lost, among more than `brake-from`: losses
                    come out of a budget that all sweepers share.
    hold            every active worker silent: none is given up until a tenth is back, or `hold-max` has passed.

The unhealthy fraction counts the lost ones too: counting only those past due would drain them as they come and never
trip. Up to five workers are too few for statistics: for them evidence and the confirm window decide. A sweeper that
loses the race for a control record declares no worker lost in that pass.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from bullpen.config import Liveness
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import control as controls
from bullpen.model.control import HELD, INGEST, Control
from bullpen.model.times import later
from bullpen.model.transition import Change
from bullpen.model.worker import ACTIVE, INACTIVE, Worker
from bullpen.ports import Ports

BY = "protection"
EVERYBODY = "everybody"
DOMAIN = "domain/"
FEW = 5  # active workers among which "all of them" happens by chance
RETURNED = 0.1  # of the active ones heard again: it was not them
BURST = 1.0  # losses that a domain may save up
NOTES_PER_GAP = 3  # so that one late note is no gap
WAITED_ENOUGH = "held for long enough"


@dataclass(frozen=True, slots=True)
class Tally:
    """The workers of a failure domain, or of all. `silent` are the active ones past their deadline."""

    active: int = 0
    silent: int = 0
    inactive: int = 0

    @property
    def unhealthy(self) -> float:
        return (self.silent + self.inactive) / max(self.active + self.inactive, 1)


@dataclass(frozen=True, slots=True)
class Protection:
    """What the numbers of one pass say. `flooded` if there were more suspects than one pass looks at."""

    rules: Liveness
    domains: Mapping[str, Tally]
    flooded: bool = False

    @property
    def everybody(self) -> Tally:
        tallies = self.domains.values()
        return Tally(sum(t.active for t in tallies), sum(t.silent for t in tallies), sum(t.inactive for t in tallies))

    def brakes(self, domain: str) -> bool:
        tally = self.domains.get(domain, Tally())
        many = tally.active + tally.inactive > self.rules.brake_from
        return many and (self.flooded or tally.unhealthy > self.rules.brake_fraction)

    @property
    def all_silent(self) -> bool:
        return self.everybody.active > FEW and self.everybody.silent >= self.everybody.active

    @property
    def some_returned(self) -> bool:
        everybody = self.everybody
        return everybody.active - everybody.silent >= RETURNED * everybody.active

    def next_hold(self, control: Control, silent: Sequence[Worker], now: datetime) -> Change[Control] | None:
        """The change of the hold that is due, if any."""
        if control.state is HELD:
            if self.some_returned:
                return controls.lift(control, controls.Holding(at=now, by=BY, why="workers are heard again"))
            if control.held_since is not None and later(control.held_since, self.rules.hold_max) <= now:
                return controls.lift(control, controls.Holding(at=now, by=BY, why=WAITED_ENOUGH))
            return None
        if not self.all_silent or _is_the_same_silence(control, silent):
            return None
        active = self.everybody.active
        why = f"all of {active} workers are silent" if active > 1 else "the only worker is silent"
        return controls.hold(control, controls.Holding(at=now, by=BY, why=why))


def tally(
    census: Mapping[tuple[str, str], int], silent: Iterable[Worker], explained: Iterable[Worker] = ()
) -> dict[str, Tally]:
    """Count by domain. Those whose silence is `explained` by evidence say nothing about the others, and do not count.

    The census may lag behind: there are never fewer active workers than silent ones.
    """
    quiet, gone = Counter(one.domain for one in silent), Counter(one.domain for one in explained)
    return {
        name: Tally(
            active=max(census.get((name, ACTIVE), 0) - gone[name], quiet[name]),
            silent=quiet[name],
            inactive=census.get((name, INACTIVE), 0),
        )
        for name in dict.fromkeys([*(domain for domain, _ in census), *quiet])
    }


def fresh_lease_from(stored: Mapping[str, Control], now: datetime) -> datetime | None:
    """Since when every lease counts again. A time in the future, of a wrong clock, is ignored."""
    names = (INGEST, EVERYBODY)
    times = [at for name in names if name in stored and (at := stored[name].recovered_at) is not None and at <= now]
    return max(times, default=None)


def is_past_due(worker: Worker, recovered_at: datetime | None, now: datetime) -> bool:
    """True if the lease is out, also when counted from when beats could be received again."""
    if worker.deadline is None or worker.deadline > now:
        return False
    return recovered_at is None or later(recovered_at, worker.lease) <= now


async def note_ingest(ports: Ports, rules: Liveness, stored: dict[str, Control], now: datetime) -> dict[str, Control]:
    """Note that beats can be received here; after a gap every worker gets a fresh lease. Returns the controls."""
    control = stored.get(INGEST) or controls.absent(INGEST)
    since = None if control.ingest_at is None else (now - control.ingest_at).total_seconds()
    if since is not None and 0 <= since < rules.grace_gap / NOTES_PER_GAP:
        return stored
    recovered = since is None or since > rules.grace_gap
    change = controls.ingest(control, controls.Ingested(at=now, by=BY, recovered=recovered))
    return stored | {INGEST: await _landed(ports, change)}


async def hold_or_lift(
    ports: Ports, protection: Protection, stored: Mapping[str, Control], silent: Sequence[Worker], now: datetime
) -> bool:
    """Enter or leave the hold if that is due; True while no worker may be given up."""
    control = stored.get(EVERYBODY) or controls.absent(EVERYBODY)
    change = protection.next_hold(control, silent, now)
    if change is None:
        return control.state is HELD
    await _landed(ports, change)
    # Also after a lift: its fresh leases count from the next look on.
    return True


async def spend(
    ports: Ports, rules: Liveness, stored: Mapping[str, Control], domain: str, wanted: int, now: datetime
) -> int:
    """Take up to `wanted` losses from the budget of a braked domain; returns how many there were."""
    control = stored.get(DOMAIN + domain) or controls.absent(DOMAIN + domain)
    budget = BURST
    if control.budget_at is not None:
        waited = max((now - control.budget_at).total_seconds(), 0.0)
        budget = min(control.budget + waited * rules.brake_rate, BURST)
    taken = min(wanted, int(budget))
    if not taken:
        return 0
    landed = await ports.records.apply_each(
        [controls.spend(control, controls.Spent(at=now, by=BY, budget=budget - taken))]
    )
    return 0 if isinstance(landed[0], Conflict) else taken


@dataclass(frozen=True, slots=True)
class DomainState:
    name: str
    active: int
    inactive: int
    braked_at: datetime | None  # when the budget of the brake was last used


@dataclass(frozen=True, slots=True)
class ProtectionState:
    """What operators ask when workers are silent: whether losses are held back, since when, and why."""

    held_since: datetime | None
    why: str
    recovered_at: datetime | None
    domains: tuple[DomainState, ...]


async def protection_state(ports: Ports) -> ProtectionState:
    stored = await ports.workers.controls()
    tallies = tally(await ports.workers.census(), ())
    hold = stored.get(EVERYBODY) or controls.absent(EVERYBODY)
    names = dict.fromkeys([*tallies, *(name.removeprefix(DOMAIN) for name in stored if name.startswith(DOMAIN))])
    domains = [
        DomainState(name, found.active, found.inactive, brake.budget_at if brake else None)
        for name in sorted(names)
        for found, brake in [(tallies.get(name, Tally()), stored.get(DOMAIN + name))]
    ]
    return ProtectionState(hold.held_since, hold.why, fresh_lease_from(stored, ports.clock.now()), tuple(domains))


def _is_the_same_silence(control: Control, silent: Sequence[Worker]) -> bool:
    """A hold that lasted long enough is not entered again unless a worker has beaten since."""
    lifted = control.recovered_at
    if lifted is None or control.why != WAITED_ENOUGH:
        return False
    return not any(worker.beat_at is not None and worker.beat_at > lifted for worker in silent)


async def _landed(ports: Ports, change: Change[Control]) -> Control:
    (outcome,) = await ports.records.apply_each([change])
    # Where the record cannot be read now, what was read before stays.
    landed: Control = (outcome.found or change.before) if isinstance(outcome, Conflict) else outcome
    return landed
