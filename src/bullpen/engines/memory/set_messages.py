"""Messages of a scale set in memory, and everything that goes wrong with them: a seed decides what, and when.

An entry waits until it is due, becomes part of a message, and comes in it again and again until that is acknowledged.
"""

from dataclasses import field, replace
from random import Random  # noqa: TID251  seeded: the same seed gives the same troubles

from bullpen.errors import UnreadableMessage
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import JobMessage, JobMessageKind, SetMessage, SetStatistics

MOST_ENTRIES = 50
"""Entries of one message."""


@dataclass(frozen=True, slots=True)
class SetTroubles:
    """How often each thing goes wrong, from 0.0 to 1.0; times are seconds."""

    lost: float = 0.0  # an entry that never comes
    late: float = 0.0  # an entry that comes later
    late_by: tuple[float, float] = (1.0, 180.0)
    doubled: float = 0.0  # a message that comes once more after it was acknowledged
    unreadable_entry: float = 0.0
    unreadable_body: float = 0.0
    unreadable: float = 0.0  # a message that does not even show its id
    unassigned: float = 0.0  # a message whose statistics say 0 beside the jobs that it assigns
    false_end: float = 0.0  # a job that starts is told to have completed, too
    dropped: float = 0.0  # a poll that finds its session ended
    empty: float = 0.0  # a poll that is answered at once, with nothing
    unannounced: float = 0.0  # a job queued while no session is open that no message ever tells of
    idle_end: float = 0.0  # a runner that GitHub drops while it is idle
    idle_for: tuple[float, float] = (120.0, 360.0)
    ghost: float = 0.0  # a runner that fails to take a job, goes on listening and is not registered any more
    busy_known_after: float = 0.0  # until then a runner can be removed under its job
    statistics_lag: float = 0.0


NO_TROUBLE = SetTroubles()


@dataclass(slots=True)
class StoredMessage:
    shown: SetMessage
    unreadable: bool = False
    acknowledged: bool = False
    repeats: int = 0  # how often it comes once it is acknowledged


@dataclass(slots=True)
class SetQueue:
    """What one set has to tell. Times are the loop's."""

    random: Random
    troubles: SetTroubles = NO_TROUBLE
    _entries: list[tuple[float, JobMessage]] = field(default_factory=list)
    _messages: list[StoredMessage] = field(default_factory=list)
    _last: int = 0

    def happens(self, rate: float) -> bool:
        return rate > 0.0 and self.random.random() < rate

    def add(self, entry: JobMessage, now: float) -> float:
        """Say what happened to a job; returns when a poll hears of it."""
        if self.happens(self.troubles.lost):
            return now
        due = now + self.random.uniform(*self.troubles.late_by) if self.happens(self.troubles.late) else now
        self._entries.append((due, entry))
        return due

    def next(self, last: int, now: float, statistics: SetStatistics) -> SetMessage | None:
        """The oldest message after `last` that is not acknowledged, or a new one. Raise UnreadableMessage."""
        self._messages = [one for one in self._messages if one.repeats or not one.acknowledged]
        for stored in self._messages:
            if stored.acknowledged:
                stored.repeats -= 1
                return stored.shown
            if stored.shown.id > last:
                return _delivered(stored)
        due = [one for one in self._entries if one[0] <= now][:MOST_ENTRIES]
        if not due:
            return None
        for one in due:
            self._entries.remove(one)
        self._messages.append(self._made([entry for _, entry in due], statistics))
        return _delivered(self._messages[-1])

    def acknowledge(self, id: int) -> None:
        for stored in self._messages:
            if stored.shown.id == id and not stored.acknowledged:
                stored.acknowledged = True
                stored.repeats = int(self.happens(self.troubles.doubled))

    def _made(self, entries: list[JobMessage], statistics: SetStatistics) -> StoredMessage:
        self._last += 1
        troubles = self.troubles
        assigns = any(one.kind is JobMessageKind.ASSIGNED for one in entries)
        if assigns and self.happens(troubles.unassigned):
            statistics = replace(statistics, assigned=0)
        shown = [JobMessage(JobMessageKind.UNKNOWN) if self.happens(troubles.unreadable_entry) else e for e in entries]
        if self.happens(troubles.unreadable_body):
            return StoredMessage(SetMessage(self._last, statistics, trouble="its body cannot be read"))
        message = SetMessage(self._last, statistics, tuple(shown))
        return StoredMessage(message, unreadable=self.happens(troubles.unreadable))


def _delivered(stored: StoredMessage) -> SetMessage:
    if stored.unreadable:
        raise UnreadableMessage("a message of the scale set cannot be read")
    return stored.shown
