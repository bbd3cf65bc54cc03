"""The lease sweep over workers that all live: what a second of it costs, and what a worker takes to keep."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from bench.homes import a_home
from bench.sweeper import BUSY
from bench.table import Measurement, Row, row
from bench.workers import TIMERS, populate, register
from bullpen.config import Settings
from bullpen.engines.sqlite.migrations import FILE
from bullpen.engines.system import SystemClock
from bullpen.wiring import embedded

BUDGETED = 1_000_000
LEASE = Settings().liveness.default_lease
ROOT = Path(__file__).parents[1]
LONGEST = 90.0


def sweep(sizes: Sequence[int] = (1000, 10_000, 100_000, BUDGETED)) -> Iterator[Row]:
    for size in sizes:
        with a_home() as home:
            empty, full, found = _sweep(home, size)
        name, budgeted = f"lease sweep, {size:,} live workers", size == BUDGETED
        yield row(f"{name}: processor time per second", found["cpu"] * 1000, "ms", "< 250" if budgeted else "")
        yield row(f"{name}: wall time per second", found["wall"] * 1000, "ms")
        yield row(f"{name}: pass without a due timer", found["idle"] * 1000, "ms")
        due = size * BUSY / (LEASE * TIMERS)
        yield row(f"{name}: due timers moved", 100 * found["moved"] / due, "%", "≥ 99" if budgeted else "")
        yield row(f"{name}: disk space per worker", (full - empty) / size, "bytes")
        yield row(f"{name}: memory growth of the sweeper", found["grown"] / 2**20, "MiB")


def _sweep(home: Path, size: int) -> tuple[int, int, dict[str, float]]:
    """Bytes on disk with one worker and with all, and what the sweeper says."""
    asyncio.run(_one_worker(home))
    empty = _bytes(home)
    now = SystemClock().now()
    populate(home, size, now, LEASE)
    full = _bytes(home)
    command = [sys.executable, "-m", "bench.sweeper", str(home), (now + timedelta(milliseconds=-1)).isoformat()]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=LONGEST, cwd=ROOT)
    return empty, full, json.loads(answer.stdout)


async def _one_worker(home: Path) -> None:
    async with embedded(home, Settings()) as ports:
        await register(ports, 1, LEASE)


def _bytes(home: Path) -> int:
    return (home / FILE).stat().st_size


MEASUREMENTS = (Measurement("lease sweep", sweep),)
