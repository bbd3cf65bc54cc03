"""Rotate: replace every instance of a class. One write for each class begins it; the first step follows at once, and
processes that keep the pool take the others (refresh/orders.py)."""

from bullpen.config import Settings
from bullpen.errors import Conflict, Refused, Unavailable
from bullpen.liveness.lost_instances import lost_instances
from bullpen.model import rotation as rotations
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.pause import paused_by
from bullpen.model.rotation import MEMBERS_MOST, Rotation, share_of
from bullpen.model.set_member import set_of
from bullpen.operate.outcome import TRIES, OperateOutcome, OperatorDeed, check_class, classes_of
from bullpen.pool import draining, rotating
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports


async def rotate(
    ports: Ports, settings: Settings, resource_class: str, *, operator: str, dry_run: bool = False
) -> OperateOutcome:
    """Replace the instances that a class has now, or with an empty name those of every class. A class without any is
    left alone. Raise ConfigError for an unknown class, and Refused for more instances than one rotation may have."""
    live = [one for one in await every_live(ports) if one.state is not TERMINATED]
    check_class(settings, resource_class, classes_of(live))
    of_classes = {name: [one for one in live if one.resource_class == name] for name in classes_of(live)}
    wanted = {name: some for name, some in of_classes.items() if resource_class in ("", name)}
    for name, some in wanted.items():
        if len(some) > MEMBERS_MOST:
            raise Refused(
                f"class {name}: a rotation may have {MEMBERS_MOST:,} instances, and the class has {len(some):,}",
                remedy="Drain some of them first. Nothing was rotated.",
            )
    actions = [await _rotate_class(ports, settings, *one, operator, dry_run) for one in wanted.items()]
    return OperateOutcome(dry_run, tuple(actions))


async def _rotate_class(
    ports: Ports, settings: Settings, name: str, of_class: list[Instance], operator: str, dry_run: bool
) -> OperatorDeed:
    pauses = await ports.records.pauses()
    own = settings.classes.get(name)
    target = own.target_at(ports.clock.now()) if own is not None else 0
    deed = OperatorDeed("rotate", f"class {name}", _words(of_class, target, paused_by(pauses, name) is not None))
    if not dry_run:
        asked = await _ask(ports, name, of_class, operator)
        lost = await lost_instances(ports, of_class) if settings.liveness.tracking else {}
        living = [one for one in of_class if one.id not in lost]  # the others are no replacement
        planned = await rotating.next_step(ports, settings, asked, living, pauses)
        await draining.carry_out(ports, settings, planned, f"rotated by {operator}", by=operator)
    return deed


async def _ask(ports: Ports, name: str, of_class: list[Instance], operator: str) -> Rotation:
    members = [one.id for one in of_class]
    for _ in range(TRIES):
        one = (await ports.records.rotations()).get(name) or rotations.absent(name)
        if len({*one.members, *members}) > MEMBERS_MOST:
            raise Refused(
                f"class {name}: with those of the rotation under way there are more than {MEMBERS_MOST:,} instances",
                remedy="Try again when it is over: `bullpen status` shows how far it is.",
            )
        event = rotations.RotationAsked(
            at=ports.clock.now(), by=operator, why=f"{len(members)} instances", members=members, operator=operator
        )
        try:
            (landed,) = await ports.records.apply(rotations.rotate(one, event))
        except Conflict:
            continue
        return landed  # type: ignore[no-any-return]
    raise Unavailable(f"class {name}: other processes keep changing its rotation", remedy="Try again.")


def _words(of_class: list[Instance], target: int, is_paused: bool) -> str:
    planned = draining.plan_drain(of_class)
    free, in_sets = len(planned.ends), sum(set_of(one) is not None for one in planned.marks)
    busy = len(planned.marks) - in_sets
    how = f"replaced, {share_of(target)} at a time, as others take their place" if target else "ended at once"
    said = [f"{free} free: {'left until the resume' if is_paused else how}"] if free else []
    said += [f"{busy} busy: ended once free"] if busy else []
    said += [f"{in_sets} in scale sets: ended once free, as far as their `min` allows"] if in_sets else []
    return "; ".join(said) or "all of its instances are drained already"
