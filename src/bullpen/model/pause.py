"""Pause: a resource class, or the whole pool, that starts nothing new until an operator resumes it.

                pause                   pause: another note
    ──────────────────▶ ┌────────┐ ─────────┐
    ┌─────────────────▶ │ paused │ ◀────────┘
    │       pause       └────────┘
    │                        │ resume
    └────── ┌─────────┐ ◀────┘
            │ resumed │
            └─────────┘

One record for each class that was ever paused, and one for the whole pool. It stays when the class is resumed, so its
story says who paused it before. A pause is a promise about the start of work only: what runs goes on, and what is given
back is cleaned. Both steps change this one record, so a process that is killed has paused, or has not.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits
from bullpen.model.ticket import format_time
from bullpen.model.transition import Event, Guard, steps_in, transition

ID_PREFIX = limits.PAUSE_PREFIX
WHOLE_POOL = "*"  # in the id, where a class has its name: no class is called so
POOL_WORDS = "the whole pool"


class State(StrEnum):
    ABSENT = "absent"  # never stored
    PAUSED = "paused"
    RESUMED = "resumed"


ABSENT, PAUSED, RESUMED = State


@dataclass(frozen=True, slots=True)
class Pause:
    """`resource_class` is empty for the whole pool. `operator` is who paused it, as people know them. While it
    `drains`, every instance that it covers is drained, also one that a provision registers now: any process does so."""

    id: str
    state: State
    version: int
    resource_class: str = ""
    note: str = ""
    operator: str = ""
    since: datetime | None = None
    drains: bool = False

    @property
    def is_on(self) -> bool:
        return self.state is PAUSED

    @property
    def subject(self) -> str:
        """What is paused, for people."""
        return subject_of(self.resource_class)

    def covers(self, resource_class: str) -> bool:
        """Whether it stops what begins in a class."""
        return self.is_on and self.resource_class in ("", resource_class)


def subject_of(resource_class: str) -> str:
    return f"class {resource_class}" if resource_class else POOL_WORDS


def words_of(one: Pause) -> str:
    """Who paused what, since when and why, for people."""
    since = f" since {format_time(one.since)}" if one.since else ""
    return f"{one.subject} is paused by {one.operator}{since}: {one.note}"


def absent(resource_class: str) -> Pause:
    return Pause(id=pause_key(resource_class), state=ABSENT, version=0, resource_class=resource_class)


def pause_key(resource_class: str) -> str:
    """The id of the record; an empty name is the whole pool."""
    return f"{ID_PREFIX}{resource_class or WHOLE_POOL}"


def paused_by(pauses: Iterable[Pause], resource_class: str) -> Pause | None:
    """The pause that stops what begins in a class: that of the pool before its own."""
    covering = [one for one in pauses if one.covers(resource_class)]
    return min(covering, key=lambda one: one.resource_class, default=None)


Step = tuple[Pause, tuple[Guard, ...]]


class PoolPaused(Event):
    note: str
    operator: str
    drains: bool = False


@transition(ABSENT, PAUSED, RESUMED, to=PAUSED)
def pause(one: Pause, event: PoolPaused) -> Step:
    """An operator pauses it, or writes another note. A further one does not change since when it is paused, and
    stops no drain."""
    since = one.since if one.is_on else event.at
    drains = one.drains or event.drains
    return replace(one, note=event.note, operator=event.operator, since=since, drains=drains), ()


class PoolResumed(Event):
    pass


@transition(PAUSED, to=RESUMED)
def resume(one: Pause, event: PoolResumed) -> Step:
    """An operator resumes it: provisions start again, and the idle target is kept. What was drained stays so."""
    return replace(one, note="", operator="", since=None, drains=False), ()


STEPS = steps_in(globals())
