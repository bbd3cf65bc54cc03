"""A cancelled step: GitHub sends SIGINT, after 7.5 s SIGTERM, and 2.5 s later kills.

The first signal breaks into whatever is waited for. Where that would lose an answer that must not be lost, it is held
back until the answer is there, for a moment. The second one ends this process at once.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bullpen.action import http, workflow_commands
from bullpen.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SETTLES = 6.0
"""Seconds after the first signal within which a step ends: 1.5 before the second one comes."""
HELD_BACK = 1.5
"""Seconds that an answer is still waited for once a signal is held back: a server begins an operation in less."""
NAP = 0.1


class StepCancelled(BaseException):
    """The step was cancelled. Not an Exception: nothing on the way may take it for a failure of its own."""


class Stopping:
    def __init__(self) -> None:
        self.asked_at: float | None = None
        self._shields = 0

    @property
    def is_pending(self) -> bool:
        """Whether a signal came that is still held back: whoever waits should not wait for long."""
        return self.asked_at is not None and self._shields > 0

    def finish(self) -> None:
        """There is a result: the first signal comes too late to change it."""
        self._shields += 1

    def install(self) -> None:
        """Signals that came earlier were held back by whoever started us, and are heard now."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    @property
    def left(self) -> float:
        """Seconds that a cancelled step still has."""
        return max(0.0, (self.asked_at or time.monotonic()) + SETTLES - time.monotonic())

    def pause(self, seconds: float) -> None:
        """Sleep, unless a signal is held back."""
        until = time.monotonic() + seconds
        while not self.is_pending and (left := until - time.monotonic()) > 0:
            time.sleep(min(NAP, left))

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Whatever happens in here is finished; a signal that came meanwhile is heard afterwards, before all else."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            if self.asked_at is not None and not self._shields:
                raise StepCancelled

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked_at is not None:
            workflow_commands.error(
                "Bullpen", "cancelled twice: left at once; what was not given back is written down as owed"
            )
            workflow_commands.leave_at_once(Interrupted.exit_code)
        self.asked_at = time.monotonic()
        if not self._shields:
            raise StepCancelled
        http.hurry(HELD_BACK)
