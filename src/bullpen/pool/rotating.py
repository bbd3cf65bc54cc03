"""Rotating: the next step of a rotation, so that the class stays as warm as it was.

    on offer                    only as many are ended as the class has on offer beyond its idle target; as many as the
                                share of the target are not counted, so that others are launched in their place
    waits in a scale set        drained, but for those that its set needs to have `min` less a share of it
    any other one               drained at once: it is ended after its run

While the class is paused, others could not be launched. So those on offer stay until their threshold or the resume,
and only the others are drained.
"""

from collections.abc import Collection, Iterator, Sequence

from bullpen.config import Settings
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.pause import Pause, paused_by
from bullpen.model.rotation import Rotation, share_of
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_member import set_of
from bullpen.pool import busy
from bullpen.pool.draining import DrainPlan, plan_drain
from bullpen.ports import Ports


async def next_step(
    ports: Ports, settings: Settings, rotation: Rotation, of_class: Sequence[Instance], pauses: Sequence[Pause]
) -> DrainPlan:
    """`of_class` are the live instances of its class. One that still boots for the idle target is adopted first: it is
    replaced as one on offer."""
    name = rotation.resource_class
    members = set(rotation.members)
    old = [one for one in of_class if one.id in members]
    if paused_by(pauses, name) is not None:
        return DrainPlan(marks=plan_drain(old).marks)
    own = settings.classes.get(name)
    idle_target = own.target_at(ports.clock.now()) if own is not None else 0
    on_offer = [one for one in of_class if one.is_claimable]
    free = sorted((one for one in old if one.is_claimable), key=lambda one: (one.offered_at or one.threshold, one.id))
    kept = await _kept_for_sets(ports, settings, members, of_class)
    marks = tuple(one for one in plan_drain(old).marks if one.id not in kept)
    return DrainPlan(tuple(free[: max(0, len(on_offer) - idle_target)]), marks)


def being_replaced(rotation: Rotation | None, on_offer: Sequence[Instance], idle_target: int) -> Collection[str]:
    """Those on offer that do not count for the idle target while others are launched in their place."""
    if rotation is None or not rotation.is_on:
        return ()
    members = set(rotation.members)
    old = [one.id for one in on_offer if one.id in members]
    return frozenset(old[: share_of(idle_target)])


async def _kept_for_sets(
    ports: Ports, settings: Settings, members: Collection[str], of_class: Sequence[Instance]
) -> frozenset[str]:
    """The instances of a rotation that wait for jobs in a scale set, and that their set needs until others do."""
    serving = [one for one in of_class if set_of(one) is not None and not one.is_drained]
    if not any(one.id in members for one in serving):
        return frozenset()
    at_work = await busy.at_work(ports, settings, [one.id for one in serving], hurry=True)
    waiting = [one for one in serving if one.id not in at_work]
    sets = await ports.records.scale_sets()
    return frozenset(id for one in sets.values() for id in _needed_by(one, members, waiting))


def _needed_by(scale_set: ScaleSet, members: Collection[str], waiting: Sequence[Instance]) -> Iterator[str]:
    own = [one for one in waiting if one.run_id == scale_set.run_id]
    others = sum(one.id not in members and one.state is RUNNING for one in own)
    least = scale_set.rules.min - share_of(scale_set.rules.min)
    yield from [one.id for one in own if one.id in members][: max(0, least - others)]
