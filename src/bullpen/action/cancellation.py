"""Cancellation of a step: GitHub sends SIGINT, SIGTERM 7.5 s later, and SIGKILL 2.5 s after that.

The first signal interrupts whatever the step waits for. During a request whose answer must not be lost, the signal is
deferred for a moment until the answer arrives. The second signal ends this process at once.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bullpen.action import http, workflow_commands
from bullpen.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SETTLES = 6.0
"""Seconds after the first signal within which a step ends: 1.5 s before the second signal."""
HELD_BACK = 1.5
"""Longest time that a signal is deferred for an answer: a server begins an operation faster."""
NAP = 0.1


class StepCancelled(BaseException):
    """The step was cancelled. Not an Exception, so that no handler of errors catches it."""


class Stopping:
    """The signals of this step: raises StepCancelled, or defers it while a section is `shielded`."""

    def __init__(self) -> None:
        self.asked_at: float | None = None
        self._shields = 0

    @property
    def is_pending(self) -> bool:
        """Whether a signal has arrived and is deferred: the current wait should end soon."""
        return self.asked_at is not None and self._shields > 0

    def finish(self) -> None:
        """Ignore the first signal from now on: there is a result, which it cannot change."""
        self._shields += 1

    def install(self) -> None:
        """Handle signals, also those that were blocked while this program started."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    @property
    def left(self) -> float:
        """Seconds that a cancelled step has left."""
        return max(0.0, (self.asked_at or time.monotonic()) + SETTLES - time.monotonic())

    def pause(self, seconds: float) -> None:
        """Sleep, unless a signal is deferred."""
        until = time.monotonic() + seconds
        while not self.is_pending and (left := until - time.monotonic()) > 0:
            time.sleep(min(NAP, left))

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Defer signals within this block; a deferred signal raises StepCancelled at its end."""
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
                "Bullpen", "cancelled twice: stopped at once; runners that were not given back are recorded as owed"
            )
            os._exit(Interrupted.exit_code)
        self.asked_at = time.monotonic()
        if not self._shields:
            raise StepCancelled
        http.hurry(HELD_BACK)
