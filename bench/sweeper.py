"""`python -m bench.sweeper HOME NOW`: sweeps a home as `serve` does, in a process that does nothing else.

Its clock begins at NOW (ISO 8601) and stands still while it passes with nothing to do; then each pass is one second
later. Answers with a line of JSON: seconds of one pass by the processor and by the wall, and what it did.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from bullpen.config import Settings
from bullpen.liveness import LivenessController
from bullpen.wiring import embedded

IDLE, BUSY = 10, 10  # passes; all of them end before the first deadline


@dataclass(slots=True)
class HandSet:
    """A clock that moves when it is told to."""

    at: datetime

    def now(self) -> datetime:
        return self.at


async def sweep(home: Path, now: datetime) -> dict[str, float]:
    clock, settings = HandSet(now), Settings()
    async with embedded(home, settings) as real:
        liveness = LivenessController(replace(real, clock=clock), settings, receives=True)
        await liveness.run_once()  # opens what is opened once, and purges
        before = _resident()
        idle, _, _ = await _passes(liveness, clock, IDLE, timedelta(0))
        cpu, wall, moved = await _passes(liveness, clock, BUSY, timedelta(seconds=1))
        return {"idle": idle, "cpu": cpu, "wall": wall, "moved": moved, "grown": _resident() - before}


async def _passes(
    liveness: LivenessController, clock: HandSet, count: int, step: timedelta
) -> tuple[float, float, int]:
    """Processor and wall time of one pass, and the number of moved timers. Every worker is alive, so none is lost."""
    cpu, wall, moved = time.process_time(), time.perf_counter(), 0
    for _ in range(count):
        clock.at += step
        done = (await liveness.run_once()).sweep
        assert not done.suspects, f"{done.suspects} live workers are suspects"
        moved += done.rearmed
    return (time.process_time() - cpu) / count, (time.perf_counter() - wall) / count, moved


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(sweep(Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2])))), flush=True)
