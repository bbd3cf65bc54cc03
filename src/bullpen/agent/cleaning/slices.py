"""How work that is done in slices takes turns with the heartbeat."""

from __future__ import annotations

import time
from collections.abc import Generator
from enum import Enum, auto
from typing import Generic, TypeVar

SLICE = 0.050  # seconds of work at a time: a heartbeat fits in between
LOOK_AGAIN = 0.020  # seconds until a child's work is looked at again; its end wakes the loop as well

T = TypeVar("T")


class CannotSettle(Exception):
    """The machine cannot be made ready for jobs; says why, for people."""


class Turn(Enum):
    WORKING = auto()  # there is more to do at once, as after None
    WAITING = auto()  # a child is at work: look again in a moment


class Slices(Generic[T]):
    """Work under way. `at` is the monotonic reading at which it goes on."""

    def __init__(self, work: Generator[Turn | None, None, T]) -> None:
        self.at = 0.0
        self._work = work

    def go_on(self) -> T | None:
        """Work for a slice. Returns the result once there is one, and raises what the work raises."""
        end = time.monotonic() + SLICE
        while self.at <= time.monotonic() < end:
            try:
                turn = next(self._work)
            except StopIteration as done:
                result: T = done.value
                return result
            self.at = time.monotonic() + LOOK_AGAIN if turn is Turn.WAITING else 0.0
        return None
