"""Draining: instances that take no new run. A free one is ended at once, any other one when it is free.

    on offer, or booting for no run ──▶ ended
    created or claimed for a run, running, being cleaned ──▶ marked ──▶ given back and clean ──▶ ended, not offered

A mark and an end are each one conditional write. A claim that is faster keeps its instance, which is then marked as
claimed; a mark that is faster is seen by the claim, which takes another instance. No instance is ended before its run
has given it back.

A rotation replaces the instances of a class without a gap: of those on offer only as many are ended as the class has on
offer beyond its idle target, and as many as its share are not counted, so that others are launched in their place.
"""

from collections.abc import Collection, Iterable, Sequence

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance as instances
from bullpen.model.hold import Pause, paused_by
from bullpen.model.instance import CREATED, TERMINATED, Instance
from bullpen.model.rotation import Rotation, share_of
from bullpen.pool import lifecycle
from bullpen.ports import Ports

TRIES = 5
"""How often an instance is read again that another process moved at the same moment: a claim, a commit, a release."""


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What there is to do: `ends` are free, `marks` are not."""

    ends: tuple[Instance, ...] = ()
    marks: tuple[Instance, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ends or self.marks)


def plan_drain(some: Iterable[Instance]) -> DrainPlan:
    """For all of these that are not drained, or ended, yet."""
    living = [one for one in some if one.state is not TERMINATED and not one.is_drained]
    free = [one for one in living if _is_free(one)]
    return DrainPlan(tuple(free), tuple(one for one in living if not _is_free(one)))


def plan_rotation(rotation: Rotation, of_class: Sequence[Instance], idle_target: int) -> DrainPlan:
    """The next step of a rotation. `of_class` are the live instances of its class. One that still boots for the idle
    target is adopted first: it is replaced as one on offer."""
    members = set(rotation.members)
    old = [one for one in of_class if one.id in members]
    on_offer = [one for one in of_class if one.is_claimable]
    free = sorted((one for one in old if one.is_claimable), key=lambda one: (one.offered_at or one.threshold, one.id))
    return DrainPlan(tuple(free[: max(0, len(on_offer) - idle_target)]), plan_drain(old).marks)


def being_replaced(rotation: Rotation | None, on_offer: Sequence[Instance], idle_target: int) -> Collection[str]:
    """Those on offer that do not count for the idle target while others are launched in their place."""
    if rotation is None or not rotation.is_on:
        return ()
    members = set(rotation.members)
    old = [one.id for one in on_offer if one.id in members]
    return frozenset(old[: share_of(idle_target)])


async def carry_out(ports: Ports, settings: Settings, planned: DrainPlan, why: str, *, by: str) -> list[str]:
    """Drain them; returns the ids of those that could not be written, as other processes kept moving them."""
    left = [*planned.ends, *planned.marks]
    for _ in range(TRIES):
        found = plan_drain(left)
        fates = await lifecycle.expire_and_terminate(ports, settings, found.ends, why, by=by) if found.ends else {}
        moved = [id for id, fate in fates.items() if fate is instances.InstanceFate.NOT_OURS]
        event = instances.Drained(at=ports.clock.now(), by=by, why=why)
        landed = await ports.records.apply_each([instances.drain(one, event) for one in found.marks])
        moved += [one.id for one, now in zip(found.marks, landed, strict=True) if not isinstance(now, Instance)]
        if not moved:
            return []
        left = [*(await ports.records.instances(moved)).values()]
    return [one.id for one in left]


def draining_pause(pauses: Iterable[Pause], resource_class: str) -> Pause | None:
    """The pause that drains a class, if one does."""
    return paused_by([one for one in pauses if one.drains], resource_class)


def words_of_drain(operator: str, note: str) -> str:
    """Why, for the story of an instance."""
    return f"drained by {operator}" + (f": {note}" if note else "")


def _is_free(one: Instance) -> bool:
    """On offer, or launched ahead of any run and booting."""
    return one.is_claimable or (one.state is CREATED and not one.run_id)
