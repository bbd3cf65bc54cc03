"""Orders: what an operator asked for that takes more than one process, or more than one moment.

    a class that drains   every instance of it that is not drained yet is
    a rotation            the next share of its instances is drained; over once none of them lives

The orders stand in the store. So whichever process keeps the pool warm goes on with them, and it does not matter which
one was killed.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import partial

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import rotation as rotations
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.pause import Pause, paused_by
from bullpen.model.rotation import Rotation
from bullpen.pool import draining, rotating
from bullpen.pool.draining import DrainPlan
from bullpen.ports import Ports
from bullpen.refresh.action import BY, Action, Plan


@dataclass(frozen=True, slots=True)
class OperatorOrders:
    """What operators have asked for, as one read shows it."""

    pauses: tuple[Pause, ...] = ()
    rotations: Mapping[str, Rotation] = field(default_factory=dict)

    @classmethod
    async def read(cls, ports: Ports) -> "OperatorOrders":
        return cls(tuple(await ports.records.pauses()), await ports.records.rotations())

    def paused(self, resource_class: str) -> Pause | None:
        return paused_by(self.pauses, resource_class)

    def idle_target(self, settings: Settings, resource_class: str, now: datetime) -> int:
        """How many instances the class keeps on offer now: none while it is paused."""
        own = settings.classes.get(resource_class)
        return own.target_at(now) if own is not None and self.paused(resource_class) is None else 0

    def counted(
        self, settings: Settings, resource_class: str, on_offer: Sequence[Instance], now: datetime
    ) -> list[Instance]:
        """Those on offer that count for the idle target."""
        target = self.idle_target(settings, resource_class, now)
        gone = rotating.being_replaced(self.rotations.get(resource_class), on_offer, target)
        return [one for one in on_offer if one.id not in gone]


async def plans(
    ports: Ports, settings: Settings, live: Sequence[Instance], orders: OperatorOrders
) -> AsyncIterator[tuple[Plan, DrainPlan]]:
    """Each plan with what it drains."""
    for name in dict.fromkeys(one.resource_class for one in live):
        of_class = [one for one in live if one.resource_class == name]
        if (pause := draining.draining_pause(orders.pauses, name)) is not None:
            if planned := draining.plan_drain(of_class):
                yield _drain(ports, settings, planned, draining.words_of_drain(pause.operator, pause.note)), planned
            continue
        rotation = orders.rotations.get(name)
        if rotation is None or not rotation.is_on:
            continue
        if planned := await rotating.next_step(ports, settings, rotation, of_class, orders.pauses):
            yield _drain(ports, settings, planned, f"rotated by {rotation.operator}"), planned
    for rotation in orders.rotations.values():
        if rotation.is_on and not await _living(ports, rotation, live):
            action = Action("finish rotation", rotation.resource_class, "none of its instances is left")
            yield Plan((action,), partial(_finish, ports, rotation)), DrainPlan()


def _drain(ports: Ports, settings: Settings, planned: DrainPlan, why: str) -> Plan:
    actions = (
        *(Action("terminate", one.id, why, kind=why) for one in planned.ends),
        *(Action("drain", one.id, f"{why}; it is ended when it is free", kind=why) for one in planned.marks),
    )
    return Plan(actions, partial(draining.carry_out, ports, settings, planned, why, by=BY))


async def _living(ports: Ports, rotation: Rotation, live: Sequence[Instance]) -> bool:
    """Whether any of its instances lives. The list may lag, so before it is over they are read by their ids."""
    if rotation.left({one.id for one in live if one.state is not TERMINATED}):
        return True
    found = await ports.records.instances(list(rotation.members))
    return any(one.state is not TERMINATED for one in found.values())


async def _finish(ports: Ports, rotation: Rotation) -> None:
    event = rotations.RotationOver(at=ports.clock.now(), by=BY, why="none of its instances is left")
    try:
        await ports.records.apply(rotations.finish(rotation, event))
    except Conflict:  # another process was faster, or an operator asked for it again
        return
