"""Runs of two trust domains race for one pool: is a machine launched although one that fits is claimable?

Each run puts back the other domain's tickets, which hides them; some tickets are lost. Neither may cause the
launch of a machine while an instance that fits has been claimable for 5 seconds or more.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from bench.stage import Stage
from bench.table import Measurement, Row, row
from bullpen.engines.memory import Faults, LoopClock, Memory, Rates, SeededChance
from bullpen.engines.memory.compute import MemoryCompute
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.sim.loop import virtual_run

DOMAINS = ("red", "blue")
LONG_ENOUGH = timedelta(seconds=5)
TROUBLED = Rates(latency=(0.0, 0.025), lost_ticket=0.1, false_empty=0.05, disorder=0.5)


def cold_launches(pools: Sequence[int] = (10, 20, 80), seeds: int = 10) -> Iterator[Row]:
    """The runs of each domain request a fifth more than its half of the pool: some launches are right."""
    for pool in pools:
        counted = [virtual_run(_race(pool, seed), seed=seed, allow_left_behind=True) for seed in range(seeds)]
        subject = f"cold launches, {seeds} races of 4 runs, pool of {pool}"
        needless = sum(count for count, _ in counted)
        yield row(f"{subject}: although a fit was claimable for ≥ 5 s", needless, "machines", "= 0")
        yield row(f"{subject}: all", sum(count for _, count in counted), "machines")


async def _race(pool: int, seed: int) -> tuple[int, int]:
    stage = Stage.of(0.2, seed=seed)
    half = pool // 2
    for domain in DOMAINS:
        await stage.fill(half, trust_domain=domain)
    await asyncio.sleep(2 * LONG_ENOUGH.total_seconds())
    ask = (half + half // 5 + 1) // 2
    watches: list[WatchedCompute] = []

    async def run(number: int) -> None:
        domain = DOMAINS[number % 2]
        faults = Faults(seed * 100 + number, TROUBLED)
        memory, clock = stage.world.memory, LoopClock()
        watched = WatchedCompute(memory, faults, domain)
        watches.append(watched)
        await asyncio.sleep(number * 0.03)
        ports = replace(memory.ports(clock, SeededChance(seed * 100 + number + 50), faults), compute=watched)
        await stage.provision(ports, f"run-{number}", ask, trust_domain=domain)

    await asyncio.gather(*(run(number) for number in range(4)))
    return sum(one.needless for one in watches), sum(one.launched for one in watches)


class WatchedCompute(MemoryCompute):
    """Inspects the pool whenever a machine is launched."""

    def __init__(self, memory: Memory, faults: Faults, domain: str) -> None:
        super().__init__(memory.yard, LoopClock(), faults)
        self._memory = memory
        self._domain = domain
        self.launched = 0
        self.needless = 0

    async def create_fleet(self, plan: FleetPlan) -> FleetAnswer:
        since = LoopClock().now() - LONG_ENOUGH
        fitting = [
            one
            for one in self._memory.tables.instances.values()
            if one.is_claimable and one.trust_domain == self._domain and one.offered_at and one.offered_at <= since
        ]
        self.launched += plan.count
        self.needless += min(plan.count, len(fitting))
        return await super().create_fleet(plan)


MEASUREMENTS = (Measurement("cold launches", cold_launches),)
