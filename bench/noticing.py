"""How long it takes to notice a dead worker, in virtual time: from its end until it is declared lost."""

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from statistics import median

from bench.table import Measurement, Row, row
from bullpen.config import Settings
from bullpen.controllers import Service
from bullpen.engines.memory import Faults, LoopClock, Memory, Rates, SeededChance
from bullpen.liveness.heartbeat import record_heartbeat
from bullpen.liveness.schema import HeartbeatAnswer, HeartbeatRequest
from bullpen.model.worker import ACTIVE
from bullpen.ports import Ports
from bullpen.sim.loop import virtual_run

SETTINGS = Settings()
OURS = int(SETTINGS.timings.lease)
DEFAULT = int(SETTINGS.liveness.default_lease)
LOOK = 0.05  # seconds between two looks of the benchmark itself
LIVING = 3  # workers for each that dies: so that silence is no mass event
DYING = 120.0  # seconds in which they die, each at its own moment between two beats


def noticed(dead: int = 150, leases: Sequence[int] = (OURS, DEFAULT)) -> Iterator[Row]:
    for lease in leases:
        waits, falsely = virtual_run(_notice(dead, lease), allow_left_behind=True)
        ours = lease == OURS
        agents = " (Bullpen's agents)" if ours else ""
        name = f"dead worker noticed, lease of {lease} s{agents}"
        yield row(f"{name}: p50", median(waits), "s", "≤ 21" if ours else "")
        yield row(f"{name}: longest", max(waits), "s", "≤ 25" if ours else "")
        yield row(f"{name}: live workers declared lost", falsely, "workers", "= 0")


async def _notice(dead: int, lease: int) -> tuple[list[float], int]:
    """For each dead worker how long it took, and how many of the living were taken for dead."""
    memory, random, loop = Memory(), Random(1), asyncio.get_running_loop()
    ends = {f"dead-{number}": random.uniform(lease, lease + DYING) for number in range(dead)}
    everyone = ends | {f"living-{number}": float("inf") for number in range(dead * LIVING)}
    began = loop.time()
    for number, (key, end) in enumerate(everyone.items()):
        ports = memory.ports(LoopClock(), SeededChance(number), Faults(number, Rates()))
        loop.create_task(_live(ports, key, lease, random.uniform(0, lease / 3), began + end))
    serving = memory.ports(LoopClock(), SeededChance(dead), Faults(dead, Rates()))
    (sweep,) = (duty for duty in Service(serving, SETTINGS).loops if duty.name == "sweep")
    loop.create_task(sweep.run(asyncio.Event()))
    waits: dict[str, float] = {}
    stored = memory.tables.workers
    async with asyncio.timeout(DYING + 10 * lease):
        while len(waits) < dead:
            await asyncio.sleep(LOOK)
            now = loop.time() - began
            for key in [key for key in ends if key in stored and stored[key].state is not ACTIVE]:
                waits[key] = now - ends.pop(key)
    return list(waits.values()), sum(one.state is not ACTIVE for key, one in stored.items() if key not in waits)


async def _live(ports: Ports, key: str, lease: int, starts_in: float, end: float) -> None:
    await asyncio.sleep(starts_in)
    loop, token = asyncio.get_running_loop(), 0
    while loop.time() < end:
        answer = await record_heartbeat(ports, SETTINGS, HeartbeatRequest(key=key, token=token, lease=lease))
        assert isinstance(answer, HeartbeatAnswer), answer
        token = answer.token
        await asyncio.sleep(answer.next_in)


MEASUREMENTS = (Measurement("dead worker noticed", noticed),)
