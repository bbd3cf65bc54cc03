"""Headroom and eviction: whether the caps allow a planned fleet, and which idle instances are ended to make room for
it.

    live instances + planned fleets + what is to come  ≤  classes.NAME.max-instances, limits.max-instances

A pool may be full of idle instances that this run cannot use. Those above their class's idle target, and those past
their threshold, are evicted, the longest idle first, if that covers the whole shortfall; otherwise none is. Each
eviction is a conditional write: a claim that is faster keeps its instance, and the pool is counted again. Room for
which other provisions wait in front is theirs.

A scale set has jobs that wait, and takes what it gets. So a launch for sets evicts as many as it may, also of an idle
target: an instance that no waiting set can use must not stand idle while their jobs wait. If that launch falls short
all the same, the room stays *reserved*: otherwise a launch for the idle target would fill it, and the next launch for
the sets would evict again, without end.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import LIVE, Instance
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.provision import FleetState, Provision
from bullpen.model.ticket import Verdict, judge
from bullpen.pool import clock_skew, lifecycle
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.provision.caps import (
    LONG_AGO,
    NONE,
    Counts,
    Excess,
    Shortage,
    caps,
    cover,
    exceeded,
    in_front,
    lasting,
    shortage_of,
    surplus,
    unusable,
)

ROUNDS = 10
"""How often the pool is counted again after others were faster, before the provision is refused."""
QUEUE_PAGE = 1000
"""Waiting provisions that are read: each is a process that waits, so there are few."""


@dataclass(frozen=True, slots=True)
class SetShare:
    """How many of the machines of a launch scale sets wait for, and which instances one of those sets can use."""

    count: int
    is_usable: Callable[[Instance], bool]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a provision would do now: which instances it would claim and end, and how many it would launch. `live` are
    the live instances, and `planned` machines that were asked for, by class."""

    fitting: tuple[Instance, ...]
    launches: int
    ended: tuple[Instance, ...]
    live: Counts
    planned: Mapping[str, int]
    shortage: Shortage | None


class Headroom:
    """The room of one provision under the caps. `evicts` is False for one that warms the pool: it must not end
    instances of one class to warm another; `for_sets` is what it also launches for scale sets, and `reserved` how many
    more machines those need, by class. `since` is when it joined the queue, if it has waited."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        *,
        evicts: bool,
        by: str,
        tell: Tell = lambda report: None,
        for_sets: SetShare | None = None,
        reserved: Mapping[str, int] = NONE,
    ):
        self._ports = ports
        self._settings = settings
        self._evicts = evicts
        self._for_sets = for_sets
        self._reserved = reserved
        self._by = by
        self._tell = tell
        self.since: datetime | None = None
        self.trusts_clock = False  # where nothing is ended, and an answer must not wait for the heartbeat of an agent

    async def ensure(self, own: Provision, to_come: int) -> Shortage | None:
        """Make room for the planned fleets of `own` and what is `to_come` after them. The shortage if they exceed a cap
        and no eviction helps, or if other provisions wait in front for that room.

        Its plan is already written, so two that race at a cap see each other, unless an index lags. Then a burst can
        exceed a cap by what was requested within the lag, but a single provision cannot.
        """
        if front := await self._front(own.needs.resource_class, own.id):
            return self._behind(front, own.needs.resource_class, own.want)
        kind, own_asked = own.needs.resource_class, _asked(own, to_come)
        asked = await self._planned(own) + Counter({kind: to_come})
        live: Counts = await self._ports.records.count()
        reserved = self._room_of_sets(own_asked, live, asked - Counter({kind: own_asked}))
        excesses = exceeded(self._settings, kind, live, asked + reserved)
        if (short := shortage_of(excesses, live, reserved)) is not None and self._for_sets is not None:
            return await self._room_for_sets(own, to_come, short)
        if excesses and self._evicts:
            live, excesses = await self._evict(own, to_come)
        return shortage_of(excesses, live)

    async def shortage(self, resource_class: str, count: int, besides: Mapping[str, int]) -> Shortage | None:
        """The shortage if `count` more of a class were requested. `besides` is how many more or fewer there are of each
        class by then. Nothing is planned or ended."""
        if front := await self._front(resource_class):
            return self._behind(front, resource_class, count)
        asked = await self._planned()
        asked.update(besides)  # not a sum of counters, which forgets those that become fewer
        live = await self._ports.records.count()
        created = Counter({name: max(0, number) for name, number in besides.items()})
        reserved = self._room_of_sets(count, live, asked) - created  # which may be for the sets
        asked.update(reserved)
        asked[resource_class] += count
        short = shortage_of(exceeded(self._settings, resource_class, live, asked), live, reserved)
        if short is None or self._for_sets is None:
            return short
        for_sets = max(0, short.over - max(0, self._beyond_sets(count)))
        to_end = await self._surplus(await self._live())
        ended = min(for_sets, sum(short.cap.covers(one.resource_class) for one in to_end))
        return replace(short, over=short.over - ended) if short.over > ended else None

    async def foreseen(self, own: Provision, least: int) -> Shortage | None:
        """The shortage that `own` would meet if it began now and wanted `least`: fitting instances are claimed, and the
        rest is launched, with evictions if they help."""
        return (await self.outlook(own, least)).shortage

    async def outlook(self, own: Provision, least: int) -> Outlook:
        """What `own` would claim, launch and end if it began now and wanted `least`, and why that is not possible.
        Nothing is planned or ended."""
        planned, live = await self._planned(own), await self._live()
        fitting = self._fitting(own, live)[:least]
        launches = least - len(fitting)
        counts = Counter((one.resource_class, one.state) for one in live)
        if not launches:
            return Outlook(tuple(fitting), 0, (), counts, planned, None)
        kind = own.needs.resource_class
        excesses = exceeded(self._settings, kind, counts, planned + Counter({kind: launches}))
        to_end = await self._surplus([one for one in live if one not in fitting]) if excesses else []
        shortage = shortage_of(lasting(excesses, to_end), counts)
        ended = () if shortage is not None else tuple(cover(excesses, to_end))
        return Outlook(tuple(fitting), launches, ended, counts, planned, shortage)

    async def behind(self, front: Sequence[Provision], own: Provision, least: int) -> Shortage | None:
        """Why `own` must wait for the provisions in front of it; None if it takes nothing that they could use."""
        kind = own.needs.resource_class
        if all(one.needs.resource_class != kind for one in front):
            live = await self._live()
            on_offer = [one for one in live if one.is_claimable and one.resource_class == kind]
            target = self._settings.resource_class(kind).target_at(self._ports.clock.now())
            none_to_evict = len(on_offer) <= target
            if none_to_evict and len(self._fitting(own, live)) >= least:
                return None
        return self._behind(front, kind, own.want)

    async def _front(self, resource_class: str, own: str = "") -> list[Provision]:
        queue = await self._ports.records.waiting_provisions(QUEUE_PAGE)
        return in_front(queue, resource_class, self._ports.clock.now(), own, self.since)

    def _behind(self, front: Sequence[Provision], resource_class: str, want: int) -> Shortage:
        known = {cap.setting: cap for cap in caps(self._settings, resource_class)}
        cap = next((known[one.waits_for] for one in front if one.waits_for in known), [*known.values()][-1])
        waiting = "1 provision waits" if len(front) == 1 else f"{len(front)} provisions wait"
        return Shortage(cap, want, cap.reached(f"{waiting} in front"))

    async def _live(self) -> list[Instance]:
        return [one for one in await every_live(self._ports) if one.state in LIVE]

    async def _surplus(self, live: Sequence[Instance]) -> list[Instance]:
        """Instances that may be evicted. One past its threshold counts for a target only if this clock may be wrong."""
        if self._for_sets is not None:
            return unusable(live, self._for_sets.is_usable)
        now = self._ports.clock.now()
        if any(one.is_claimable and one.threshold <= now for one in live):
            doubtful = not self.trusts_clock and await clock_skew.doubt(self._ports, self._settings)
            return surplus(self._settings, live, now, LONG_AGO if doubtful else now)
        return surplus(self._settings, live, now)

    def _fitting(self, own: Provision, live: Iterable[Instance]) -> list[Instance]:
        now, kind = self._ports.clock.now(), self._settings.resource_class(own.needs.resource_class)
        fitting = [
            one
            for one in live
            if one.is_claimable and judge(one.ticket(), own.needs, kind.cpu, kind.mem, now) is Verdict.TAKE
        ]
        # As pickup does: those of the requested usage class first.
        return sorted(fitting, key=lambda one: one.usage_class is not own.needs.usage_class)

    async def _planned(self, own: Provision | None = None) -> Counter[str]:
        """Machines of planned fleets, by class. Read before live instances are counted: a machine that is registered in
        between counts twice, and is never missed."""
        return _by_class(await self._fleets(own))

    async def _fleets(self, own: Provision | None) -> dict[str, tuple[str, int]]:
        """Planned fleets by token: of which class, and how many machines."""
        fleets: dict[str, tuple[str, int]] = {}
        for name in self._settings.classes:
            found = {one.id: one for one in await self._ports.records.open_provisions(name)}
            if own is not None and own.needs.resource_class == name:
                found[own.id] = own  # as written: an index may not show it yet
            of_class = [fleet for one in found.values() for fleet in one.fleets]
            fleets |= {one.client_token: (name, one.count) for one in of_class if one.state is FleetState.PLANNED}
        return fleets

    async def _standing(self, own: Provision) -> tuple[Counter[str], list[Instance]]:
        """Planned machines by class, and the live instances, read while no fleet moved from one to the other: no
        instance may be ended because another was counted twice."""
        before, tries = await self._fleets(own), 0
        while True:
            live, after = await every_live(self._ports), await self._fleets(own)
            if after == before or tries == ROUNDS:
                return _by_class(before), live
            before, tries = after, tries + 1

    def _beyond_sets(self, asked: int) -> int:
        """How many of these no set needs."""
        return asked - (self._for_sets.count if self._for_sets is not None else 0)

    def _room_of_sets(self, asked: int, live: Counts, others: Mapping[str, int]) -> Counter[str]:
        """The room by class that these machines must leave, unless they are all for sets. It is reserved as far as the
        cap of its class leaves any beside what `others` launch: no more can be launched there."""
        room = Counter[str]()
        if self._beyond_sets(asked) <= 0:
            return room
        for name, count in self._reserved.items():
            if most := self._settings.resource_class(name).max_instances:
                there = sum(number for (of_class, _), number in live.items() if of_class == name)
                count = min(count, most - there - others.get(name, 0))
            room[name] = max(0, count)
        return room

    async def _room_for_sets(self, own: Provision, to_come: int, short: Shortage) -> Shortage | None:
        """The same for a launch that takes fewer. What it asks for beyond the share of the sets is given up first: no
        instance is ended for that. Then as many are ended as there are."""
        if (beyond := self._beyond_sets(_asked(own, to_come))) > 0:
            return replace(short, over=min(short.over, beyond))
        live, excesses = await self._evict(own, to_come)
        if (left := shortage_of(excesses, live)) is None:
            return None
        to_end = await self._surplus(await self._live())
        over = max(one.over - sum(one.cap.covers(idle.resource_class) for idle in to_end) for one in excesses)
        return replace(left, over=max(over, 1))

    async def _evict(self, own: Provision, to_come: int) -> tuple[Counts, list[Excess]]:
        """End idle instances until the caps are kept; returns the counts, and the caps that are still exceeded."""
        seen: dict[str, Instance] = {}  # as the writes here found them: an index may not show it yet
        kind, rounds = own.needs.resource_class, 0
        while True:
            planned, listed = await self._standing(own)
            asked = planned + Counter({kind: to_come})
            live = [one for one in _newest(listed, seen) if one.state in LIVE]
            counts = Counter((one.resource_class, one.state) for one in live)
            excesses = exceeded(self._settings, kind, counts, asked)
            to_end = await self._surplus(live)
            chosen = cover(excesses, to_end)
            if not chosen:
                return counts, lasting(excesses, to_end)
            if rounds == ROUNDS:
                return counts, excesses
            rounds += 1
            why = f"{excesses[0].cap}, and {own.id} needs its place"
            seen |= await self._end(chosen, why)

    async def _end(self, chosen: Sequence[Instance], why: str) -> dict[str, Instance]:
        """End these instances; returns their records as stored then."""
        now = self._ports.clock.now()
        changes = [lifecycle.end(one, now, self._by, f"evicted: {why}") for one in chosen]
        landed = await self._ports.records.apply_each(changes)
        ended = [one for one in landed if isinstance(one, Instance)]
        if ended:
            text = f"evicting {len(ended)} idle to make room: {', '.join(one.id for one in ended)}"
            self._tell(ProgressReport(WorkPhase.EVICT, text, total=len(ended)))
        # Awaited: on a host that is full, a new machine has room only when the old one is gone.
        await lifecycle.terminate(self._ports, self._settings, ended, by=self._by)
        found = [one.found if isinstance(one, Conflict) else one for one in landed]
        return {one.id: one for one in found if isinstance(one, Instance)}


def _asked(own: Provision, to_come: int) -> int:
    return to_come + sum(one.count for one in own.fleets if one.state is FleetState.PLANNED)


def _by_class(fleets: Mapping[str, tuple[str, int]]) -> Counter[str]:
    return sum((Counter({name: count}) for name, count in fleets.values()), Counter())


def _newest(listed: Iterable[Instance], seen: Mapping[str, Instance]) -> list[Instance]:
    return [max(one, seen.get(one.id, one), key=lambda record: record.version) for one in listed]
