"""The embedded engine with real processes on this machine: cold, warm and back, and growth."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from bench.homes import LONGEST, a_home_with_instances, fill
from bench.records import buried
from bench.table import Measurement, Row, row
from bullpen.config import Limits, Local, Settings, Timings
from bullpen.engines.sqlite.database import Database
from bullpen.engines.system import SystemClock
from bullpen.model.provision import Origin
from bullpen.ports import Ports
from bullpen.provision import Request, provision
from bullpen.release import release
from bullpen.wiring import embedded

T = TypeVar("T")

SETTINGS = Settings(
    timings=Timings(idle=600.0), limits=Limits(max_instances=200), local=Local(capacity=100, spot_capacity=100)
)
DEAD = 8000


def one(times: int = 7) -> Iterator[Row]:
    """A single instance, often enough that the median says something."""
    colds, warms = _story(lambda ports: _one(ports, times))
    yield row("embedded: one cold instance ready", median(colds) * 1000, "ms", "< 300")
    yield row("embedded: warm claim to ready", median(warms) * 1000, "ms", "< 100")


def many(sizes: Sequence[int] = (1, 10, 50)) -> Iterator[Row]:
    """Only the largest size has targets: on two cores, 50 interpreters start, and 50 agents answer and clean."""
    for size in sizes:
        cold, warm, back = _story(partial(_many, size=size))
        subject, target = f"embedded: {size} at once", "< 3" if size == 50 else ""
        yield row(f"{subject}, provision cold", cold, "s")
        yield row(f"{subject}, provision warm", warm, "s", target)
        yield row(f"{subject}, release", back, "s", target)
        yield row(f"{subject}, cold/warm", cold / warm, "x")


def release_beside_history(times: int = 5) -> Iterator[Row]:
    """In turns, in two homes: whatever else this machine does slows both."""
    with a_home_with_instances(SETTINGS) as young, a_home_with_instances(SETTINGS) as old:
        without, beside = asyncio.run(_release_both(young, old, times))
    ratio = median(beside) / median(without)
    yield row(f"embedded: release 10 beside {DEAD:,} terminated: time compared with none", ratio, "x", "≤ 2")


def _story(tell: Callable[[Ports], Awaitable[T]]) -> T:
    async def main(home: Path) -> T:
        async with asyncio.timeout(LONGEST), embedded(home, SETTINGS) as ports:
            return await tell(ports)

    with a_home_with_instances(SETTINGS) as home:
        return asyncio.run(main(home))


async def _one(ports: Ports, times: int) -> tuple[list[float], list[float]]:
    colds = [await _provision(ports, f"cold-{number}", 1, Origin.CREATED) for number in range(times)]
    for number in range(times):
        await _release(ports, f"cold-{number}", 1)
    warms = []
    for number in range(times):
        warms.append(await _provision(ports, f"warm-{number}", 1, Origin.SELECTED))
        await _release(ports, f"warm-{number}", 1)
    return colds, warms


async def _many(ports: Ports, size: int) -> tuple[float, float, float]:
    cold = await _provision(ports, "cold", size, Origin.CREATED)
    await _release(ports, "cold", size)
    warm = await _provision(ports, "warm", size, Origin.SELECTED)
    return cold, warm, await _release(ports, "warm", size)


async def _release_both(young: Path, old: Path, times: int) -> tuple[list[float], list[float]]:
    without: list[float] = []
    beside: list[float] = []
    async with asyncio.timeout(LONGEST):
        async with Database.open(old) as database:
            await fill(database, buried("i-dead", "measured", SystemClock().now()), DEAD)
        async with embedded(young, SETTINGS) as ports, embedded(old, SETTINGS) as ports_beside:
            for _ in range(times):
                for pool, lasted in ((ports, without), (ports_beside, beside)):
                    await _provision(pool, "measured", 10)
                    lasted.append(await _release(pool, "measured", 10))
    return without, beside


async def _provision(ports: Ports, run_id: str, count: int, origin: Origin | None = None) -> float:
    request = Request(run_id, count, SETTINGS.requirements("small"), SETTINGS.timings.max_runtime)
    began = time.perf_counter()
    outcome = await provision(ports, SETTINGS, request, stop=asyncio.Event())
    lasted = time.perf_counter() - began
    assert outcome.succeeded, outcome.reason
    assert origin is None or all(member.origin is origin for member in outcome.members), outcome
    return lasted


async def _release(ports: Ports, run_id: str, count: int) -> float:
    began = time.perf_counter()
    released = await release(ports, SETTINGS, run_id, stop=asyncio.Event())
    lasted = time.perf_counter() - began
    assert len(released.offered) == count, released
    return lasted


MEASUREMENTS = (
    Measurement("embedded: one", one),
    Measurement("embedded: many at once", many),
    Measurement("embedded: release beside terminated records", release_beside_history),
)
