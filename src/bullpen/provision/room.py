"""Room: whether the caps allow a planned fleet, and which idle instances are ended to make room for it.

    live instances + planned fleets + what is to come  ≤  classes.NAME.max-instances, limits.max-instances

A pool may be full of idle instances that this run cannot use. Those above their class's idle target are ended, the
longest idle first, if that covers the whole shortfall; otherwise none is. Each end is a conditional write: a claim that
is faster keeps its instance, and the pool is counted again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bullpen import handover
from bullpen.config import Settings
from bullpen.errors import Conflict, LimitReached
from bullpen.inventory import every_live
from bullpen.model.instance import LIVE, Instance, State
from bullpen.model.provision import FleetState, Provision
from bullpen.ports import Ports
from bullpen.provision.outcome import Tell

Counts = Mapping[tuple[str, State], int]
ROUNDS = 10
"""How often the pool is counted again after others were faster, before the provision is refused."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cap:
    setting: str
    limit: int
    resource_class: str = ""  # empty: of the whole pool

    def covers(self, resource_class: str) -> bool:
        return self.resource_class in ("", resource_class)


@dataclass(frozen=True, slots=True)
class Excess:
    """A cap that would be passed, and what there would be."""

    cap: Cap
    total: int

    @property
    def over(self) -> int:
        return self.total - self.cap.limit

    def __str__(self) -> str:
        return f"{self.cap.setting} is {self.cap.limit}; this would make {self.total}"


def caps(settings: Settings, resource_class: str) -> list[Cap]:
    """The caps that an instance of a class falls under, that of the class first."""
    own, pool = settings.resource_class(resource_class).max_instances, settings.limits.max_instances
    of_class = [Cap(f"classes.{resource_class}.max-instances", own, resource_class)] if own else []
    return [*of_class, Cap("limits.max-instances", pool)]


@dataclass(frozen=True, slots=True)
class Shortage:
    """So many are too many, and the error that says so."""

    over: int
    error: LimitReached


class Room:
    """Of one provision. `evicts` is False for one that warms the pool: it must not end one class to warm another."""

    def __init__(self, ports: Ports, settings: Settings, *, evicts: bool, by: str, tell: Tell = lambda line: None):
        self._ports = ports
        self._settings = settings
        self._evicts = evicts
        self._by = by
        self._tell = tell

    async def make(self, own: Provision, to_come: int) -> Shortage | None:
        """The shortage, if the planned fleets of `own` and what is `to_come` after them pass a cap and no eviction
        helps.

        Its plan is written already, so of two that race at a cap none slips by, if each finds the other: indexes may be
        behind. Then a burst passes a cap by what was asked for within their lag, but nobody passes it alone.
        """
        asked = {own.needs.resource_class: to_come}
        live: Counts = await self._ports.records.count()
        excesses = await self._excesses(own.needs.resource_class, live, asked, own)
        if excesses and self._evicts:
            live, excesses = await self._evict(own, asked)
        return _shortage(excesses, live)

    async def shortage(self, resource_class: str, asked: Mapping[str, int]) -> Shortage | None:
        """What would be too many of a class if so many were asked for, by class. Nothing is planned or ended."""
        live = await self._ports.records.count()
        return _shortage(await self._excesses(resource_class, live, asked), live)

    async def _excesses(
        self, resource_class: str, live: Counts, asked: Mapping[str, int], own: Provision | None = None
    ) -> list[Excess]:
        counted = Counter(asked)
        for (name, _), number in live.items():
            counted[name] += number
        for name in self._settings.classes:
            counted[name] += await self._planned(name, own)
        totals = [
            Excess(cap, sum(number for name, number in counted.items() if cap.covers(name)))
            for cap in caps(self._settings, resource_class)
        ]
        return [one for one in totals if one.over > 0]

    async def _planned(self, resource_class: str, own: Provision | None) -> int:
        found = {one.id: one for one in await self._ports.records.open_provisions(resource_class)}
        if own is not None and own.needs.resource_class == resource_class:
            found[own.id] = own  # as we wrote it: an index may not show it yet
        fleets = [fleet for one in found.values() for fleet in one.fleets]
        return sum(fleet.count for fleet in fleets if fleet.state is FleetState.PLANNED)

    async def _evict(self, own: Provision, asked: Mapping[str, int]) -> tuple[Counts, list[Excess]]:
        """End idle instances until the caps are kept; returns the counts, and what is in excess all the same."""
        seen: dict[str, Instance] = {}  # as our own writes found them: an index may not show it yet
        rounds = 0
        while True:
            live = [one for one in _newest(await every_live(self._ports), seen) if one.state in LIVE]
            counts = Counter((one.resource_class, one.state) for one in live)
            excesses = await self._excesses(own.needs.resource_class, counts, asked, own)
            chosen = _cover(excesses, _surplus(self._settings, live))
            if not chosen or rounds == ROUNDS:
                return counts, excesses
            rounds += 1
            why = f"{excesses[0].cap.setting} is {excesses[0].cap.limit}, and {own.id} needs its place"
            seen |= await self._end(chosen, why)

    async def _end(self, chosen: Sequence[Instance], why: str) -> dict[str, Instance]:
        """End them; the records as they stand then."""
        now = self._ports.clock.now()
        changes = [handover.end(one, now, self._by, f"evicted: {why}") for one in chosen]
        landed = await self._ports.records.apply_each(changes)
        ended = [one for one in landed if isinstance(one, Instance)]
        if ended:
            self._tell(f"ending {len(ended)} idle for room: {', '.join(one.id for one in ended)}")
        # Awaited: on a host that is full as well, the new machine has its place only when the old one is gone.
        await handover.terminate(self._ports, self._settings, ended, by=self._by)
        found = [one.found if isinstance(one, Conflict) else one for one in landed]
        return {one.id: one for one in found if isinstance(one, Instance)}


def _shortage(excesses: Sequence[Excess], live: Counts) -> Shortage | None:
    if not excesses:
        return None
    message = f"{excesses[0]}; it is held by {_holders(excesses[0].cap, live)}"
    error = LimitReached(message, remedy="release runners, wait, or raise the limit")
    return Shortage(max(one.over for one in excesses), error)


def _newest(listed: Iterable[Instance], seen: Mapping[str, Instance]) -> list[Instance]:
    return [max(one, seen.get(one.id, one), key=lambda record: record.version) for one in listed]


def _surplus(settings: Settings, live: Iterable[Instance]) -> list[Instance]:
    """On offer beyond the idle targets, which the youngest fill; the longest idle first."""
    on_offer: dict[str, list[Instance]] = {}
    for one in sorted((one for one in live if one.is_claimable), key=_idle_since):
        on_offer.setdefault(one.resource_class, []).append(one)
    kinds = settings.classes
    kept = {name: kinds[name].idle_target if name in kinds else 0 for name in on_offer}
    beyond = [one for name, some in on_offer.items() for one in some[: max(len(some) - kept[name], 0)]]
    return sorted(beyond, key=_idle_since)


def _idle_since(one: Instance) -> tuple[datetime, str]:
    return one.offered_at or LONG_AGO, one.id


def _cover(excesses: Sequence[Excess], surplus: Sequence[Instance]) -> list[Instance]:
    """As few as make room under every cap; none if they do not suffice. The narrower cap comes first: what it needs
    makes room under the wider one, too."""
    chosen: list[Instance] = []
    for excess in excesses:
        have = sum(excess.cap.covers(one.resource_class) for one in chosen)
        left = [one for one in surplus if one not in chosen and excess.cap.covers(one.resource_class)]
        if len(left) < excess.over - have:
            return []
        chosen += left[: max(excess.over - have, 0)]
    return chosen


def _holders(cap: Cap, live: Counts) -> str:
    held = Counter({f"{name} {state}": number for (name, state), number in live.items() if cap.covers(name) and number})
    return ", ".join(f"{number} {what}" for what, number in held.most_common()) or "nothing: ask for fewer"
