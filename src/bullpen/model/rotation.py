"""Rotation: every instance that a class had at one moment is replaced, and the class stays as warm as it was.

                rotate                      rotate again: those of now
    ──────────────────▶ ┌──────────┐ ─────────────┐
    ┌─────────────────▶ │ rotating │ ◀────────────┘
    │      rotate       └──────────┘
    │                        │ finish: none of them is left
    └────── ┌─────────┐ ◀────┘
            │ rotated │
            └─────────┘

One write begins it: the record has the ids of all instances that are to go. No instance is marked, so a process that is
killed leaves nothing half done, and any process that keeps the pool warm goes on with the next step. A busy instance is
drained. One on offer is ended once the class has as many others on offer as its idle target asks for.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits
from bullpen.model.transition import Event, Guard, steps_in, transition

ID_PREFIX = limits.ROTATION_PREFIX
MEMBERS_MOST = 10_000  # ids of one rotation: 200 KB of the 400 that an item of DynamoDB may have
SHARE = 4
"""A quarter of the idle target is replaced at a time, at least one instance: so many more machines run meanwhile."""


class State(StrEnum):
    ABSENT = "absent"  # never stored
    ROTATING = "rotating"
    ROTATED = "rotated"


ABSENT, ROTATING, ROTATED = State


@dataclass(frozen=True, slots=True)
class Rotation:
    """`members` are the instances that are to go; empty once it is over."""

    id: str
    state: State
    version: int
    members: tuple[str, ...] = ()
    operator: str = ""
    since: datetime | None = None

    @property
    def resource_class(self) -> str:
        return self.id.removeprefix(ID_PREFIX)

    @property
    def is_on(self) -> bool:
        return self.state is ROTATING

    def left(self, living: Collection[str]) -> int:
        """How many of its instances still live."""
        return sum(id in living for id in self.members)


def absent(resource_class: str) -> Rotation:
    return Rotation(id=rotation_key(resource_class), state=ABSENT, version=0)


def rotation_key(resource_class: str) -> str:
    """The id of the record."""
    return f"{ID_PREFIX}{resource_class}"


def share_of(idle_target: int) -> int:
    """How many instances on offer are replaced at a time."""
    return max(1, idle_target // SHARE)


Step = tuple[Rotation, tuple[Guard, ...]]


class RotationAsked(Event):
    members: Sequence[str]
    operator: str


@transition(ABSENT, ROTATING, ROTATED, to=ROTATING)
def rotate(rotation: Rotation, event: RotationAsked) -> Step:
    """An operator asks for it: the instances that live now are to go, with those of a rotation that is not over."""
    members = tuple(dict.fromkeys((*rotation.members, *event.members)))
    if len(members) > MEMBERS_MOST:
        raise Conflict(f"{rotation.id}: {len(members)} instances are more than the {MEMBERS_MOST} of one rotation")
    return replace(rotation, members=members, operator=event.operator, since=event.at), ()


class RotationOver(Event):
    pass


@transition(ROTATING, to=ROTATED)
def finish(rotation: Rotation, event: RotationOver) -> Step:
    """None of its instances is left."""
    return replace(rotation, members=()), ()


STEPS = steps_in(globals())
