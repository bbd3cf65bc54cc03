"""How slow a busy machine is, for tests of what must be done in time: there, a bound is worth as many times more."""

import subprocess
import time

SAMPLE = 0.05  # seconds of a processor
EVERY = 0.25  # seconds between two samples: a machine may become busy at any moment


def slowness() -> float:
    """How many times longer than alone this process takes now, because others want the processors too; at least 1."""
    began, used = time.monotonic(), time.process_time()
    while (work := time.process_time() - used) < SAMPLE:
        pass
    return max(1.0, (time.monotonic() - began) / work)


class UnhurriedClock:
    """The time that has passed as it would have on a machine that is not busy: the slowness is measured all along, so
    load that comes or goes meanwhile counts for as long as it was there."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._at = time.monotonic()

    def wait(self, process: "subprocess.Popen[bytes]", until: float) -> bool:
        """Wait for the end of the process, until this clock shows so many seconds; returns whether it has ended."""
        while self.seconds < until:
            try:
                process.wait(EVERY)
            except subprocess.TimeoutExpired:
                self._tick()
            else:
                self._tick()
                return True
        return process.poll() is not None

    def _tick(self) -> None:
        slower, now = slowness(), time.monotonic()
        self.seconds += (now - self._at) / slower
        self._at = now
