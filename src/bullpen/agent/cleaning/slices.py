"""How work that is done in slices takes turns with the heartbeat."""

from __future__ import annotations

from enum import Enum, auto

SLICE = 0.050  # seconds of work at a time: a heartbeat fits in between
LOOK_AGAIN = 0.020  # seconds until a child's work is looked at again; its end wakes the loop as well


class CannotSettle(Exception):
    """The machine cannot be made ready for jobs; says why, for people."""


class Turn(Enum):
    WORKING = auto()  # there is more to do at once
    WAITING = auto()  # a child is at work: look again in a moment
