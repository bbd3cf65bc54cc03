"""How work that is done in slices takes turns with the heartbeat."""

from __future__ import annotations

from enum import Enum, auto


class CannotSettle(Exception):
    """The machine cannot be made ready for jobs; says why, for people."""


class Turn(Enum):
    WORKING = auto()  # there is more to do at once
    WAITING = auto()  # a child is at work: look again in a moment
