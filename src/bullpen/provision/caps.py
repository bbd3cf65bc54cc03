"""The caps of the settings, pure: what would exceed them, what may be ended to make room, and which provisions wait in
front."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

from bullpen.config import Settings
from bullpen.errors import LimitReached, OnHold
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance, State
from bullpen.model.pause import Pause, words_of
from bullpen.model.provision import Provision

Counts = Mapping[tuple[str, State], int]
REMEDY = "Release runners, wait for room with --wait, or raise the limit."
NONE: Mapping[str, int] = MappingProxyType({})
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cap:
    setting: str
    limit: int
    resource_class: str = ""  # empty: of the whole pool

    def covers(self, resource_class: str) -> bool:
        return self.resource_class in ("", resource_class)

    def __str__(self) -> str:
        return f"{self.setting} is {self.limit}"

    def reached(self, detail: str) -> LimitReached:
        """The error of a request that has no room under it."""
        return LimitReached(f"{self}; {detail}", remedy=REMEDY, setting=self.setting, limit=self.limit)


@dataclass(frozen=True, slots=True)
class Excess:
    """A cap that would be exceeded, and the total that there would be."""

    cap: Cap
    total: int

    @property
    def over(self) -> int:
        return self.total - self.cap.limit

    def __str__(self) -> str:
        return f"{self.cap}; {self.detail}"

    @property
    def detail(self) -> str:
        return f"the total would be {self.total}"


POOL_CAP = "limits.max-instances"
RESUME = "a resume"
"""What a provision waits for while its class or the pool is paused: instead of the setting of a cap."""


def _class_cap(resource_class: str) -> str:
    return f"classes.{resource_class}.max-instances"


def caps(settings: Settings, resource_class: str) -> list[Cap]:
    """The caps that an instance of a class falls under, that of the class first."""
    own, pool = settings.resource_class(resource_class).max_instances, settings.limits.max_instances
    of_class = [Cap(_class_cap(resource_class), own, resource_class)] if own else []
    return [*of_class, Cap(POOL_CAP, pool)]


@dataclass(frozen=True, slots=True)
class Shortage:
    """How many are too many under a cap, and the error that says so."""

    cap: Cap
    over: int
    error: LimitReached


def paused(pause: Pause, want: int) -> Shortage:
    """No room for any, as long as the pause is in force."""
    option = f" --class {pause.resource_class}" if pause.resource_class else ""
    remedy = f"Wait for the resume with --wait, or resume it with `bullpen resume{option}`."
    return Shortage(Cap(RESUME, 0, pause.resource_class), want, OnHold(words_of(pause), remedy=remedy, setting=RESUME))


def in_front(
    queue: Iterable[Provision], resource_class: str, now: datetime, own: str = "", since: datetime | None = None
) -> list[Provision]:
    """The provisions in the queue of a cap of this class, whose place is before that of `own`; all of them if it has
    none. One whose place has run out is dead."""
    waiting = [(one, one.place) for one in queue if one.place is not None and one.id != own]
    return [
        one
        for one, place in waiting
        if place.until > now
        and place.cap in (POOL_CAP, _class_cap(resource_class))
        and (since is None or (place.since, one.id) < (since, own))
    ]


def exceeded(settings: Settings, resource_class: str, live: Counts, asked: Mapping[str, int]) -> list[Excess]:
    """The caps of a class that the live instances and the requested ones would exceed; that of the class first."""
    counted = Counter(asked)
    for (name, _), number in live.items():
        counted[name] += number
    totals = [
        Excess(cap, sum(number for name, number in counted.items() if cap.covers(name)))
        for cap in caps(settings, resource_class)
    ]
    return [one for one in totals if one.over > 0]


def shortage_of(excesses: Sequence[Excess], live: Counts, for_sets: Mapping[str, int] = NONE) -> Shortage | None:
    """`for_sets` is the part of the total that scale sets wait for."""
    if not excesses:
        return None
    first = excesses[0]
    kept = sum(number for name, number in for_sets.items() if first.cap.covers(name))
    besides = f", {kept} of them for scale sets" if kept else ""
    error = first.cap.reached(f"{first.detail}{besides}; in use: {_holders(first.cap, live)}")
    return Shortage(first.cap, max(one.over for one in excesses), error)


def surplus(
    settings: Settings, live: Iterable[Instance], now: datetime, expired_by: datetime = LONG_AGO
) -> list[Instance]:
    """Instances that are idle beyond the idle targets of this moment, which the youngest fill; the longest idle first.
    One whose threshold has passed at `expired_by` fills no target: no run can claim it."""
    idle = sorted((one for one in live if one.is_claimable), key=_idle_since)
    on_offer: dict[str, list[Instance]] = {}
    for one in idle:
        if one.threshold > expired_by:
            on_offer.setdefault(one.resource_class, []).append(one)
    kinds = settings.classes
    kept = {name: kinds[name].target_at(now) if name in kinds else 0 for name in on_offer}
    beyond = [one for name, some in on_offer.items() for one in some[: max(len(some) - kept[name], 0)]]
    return sorted([*beyond, *(one for one in idle if one.threshold <= expired_by)], key=_idle_since)


def unusable(live: Iterable[Instance], is_usable: Callable[[Instance], bool]) -> list[Instance]:
    """Idle instances that none of those that wait can use; the longest idle first."""
    return sorted((one for one in live if one.is_claimable and not is_usable(one)), key=_idle_since)


def _idle_since(one: Instance) -> tuple[datetime, str]:
    return one.offered_at or LONG_AGO, one.id


def cover(excesses: Sequence[Excess], surplus: Sequence[Instance]) -> list[Instance]:
    """The fewest instances that make room under every cap; none if they do not suffice. The narrower cap comes first:
    what is ended for it makes room under the wider one, too."""
    chosen: list[Instance] = []
    for excess in excesses:
        have = sum(excess.cap.covers(one.resource_class) for one in chosen)
        left = [one for one in surplus if one not in chosen and excess.cap.covers(one.resource_class)]
        if len(left) < excess.over - have:
            return []
        chosen += left[: max(excess.over - have, 0)]
    return chosen


def lasting(excesses: Sequence[Excess], surplus: Sequence[Instance]) -> list[Excess]:
    """The caps under which the surplus cannot make room."""
    return [one for one in excesses if not cover([one], surplus)]


def _holders(cap: Cap, live: Counts) -> str:
    held = Counter({f"{name} {state}": number for (name, state), number in live.items() if cap.covers(name) and number})
    return ", ".join(f"{number} {what}" for what, number in held.most_common()) or "none"
