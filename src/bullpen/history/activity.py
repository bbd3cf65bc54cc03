"""Activity: the actions of refresh, of the loops of serve and of operators are stored, each with its reason.

A loop notes its actions without waiting; another one writes them every few seconds, many together. What cannot be
written is kept for a while and then dropped: no work waits for it.
"""

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from bullpen.history.bookkeeper import quietly
from bullpen.model.activity_note import NOTE_LENGTH, ActionNote
from bullpen.model.texts import fitting
from bullpen.ports import Ports

WAITING = 2000
"""Notes that wait to be written; older ones are dropped. More than the loops of a large pool do in a minute."""


class Performed(Protocol):
    """An action: what was done to which subject, and why. `is_done` is False if it could not be done."""

    @property
    def what(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def is_done(self) -> bool: ...


def note_of(at: datetime, by: str, action: Performed) -> ActionNote:
    """What could not be done is trouble, and so is an alarm."""
    trouble = not action.is_done or action.what == "alarm"
    texts = (by, action.what, action.subject, action.reason)
    by, did, subject, reason = (fitting(one, NOTE_LENGTH) for one in texts)
    return ActionNote(at, by, did, subject, reason, action.is_done, trouble)


async def note(ports: Ports, by: str, actions: Iterable[Performed]) -> None:
    """Store these actions now, as far as the store takes them."""
    at = ports.clock.now()
    if notes := [note_of(at, by, action) for action in actions]:
        await quietly(ports.history.note_actions(notes))


class ActivityLog:
    """What one process has done and not written yet."""

    def __init__(self, ports: Ports, process: str) -> None:
        self._ports = ports
        self._process = process
        self._waiting: deque[ActionNote] = deque(maxlen=WAITING)

    def note(self, controller: str, actions: Iterable[Performed]) -> None:
        at, by = self._ports.clock.now(), f"{self._process}/{controller}"
        self._waiting.extend(note_of(at, by, action) for action in actions)

    async def flush(self) -> None:
        """Write what waits. What an error may have left unwritten is written again by the next call."""
        notes = list(self._waiting)
        if notes:
            await self._ports.history.note_actions(notes)
            for written in notes:
                if self._waiting and self._waiting[0] is written:  # a full log may have dropped it meanwhile
                    self._waiting.popleft()
