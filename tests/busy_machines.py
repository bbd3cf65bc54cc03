"""How slow a busy machine is, for tests of what must be done in time: there, a bound is worth as many times more."""

import time

SAMPLE = 0.05  # seconds of a processor


def slowness() -> float:
    """How many times longer than alone this process takes now, because others want the processors too; at least 1."""
    began, used = time.monotonic(), time.process_time()
    while (work := time.process_time() - used) < SAMPLE:
        pass
    return max(1.0, (time.monotonic() - began) / work)
