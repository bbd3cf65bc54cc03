"""Refresh over an idle pool with nothing to do, in virtual time."""

from collections.abc import Iterator, Sequence

from bench.stage import SETTINGS, Cost, Stage, perform
from bench.table import Measurement, Row, row
from bullpen.engines.memory import Faults
from bullpen.ports import Ports
from bullpen.refresh import refresh


def idle(sizes: Sequence[int] = (10, 100, 1000)) -> Iterator[Row]:
    for size in sizes:
        cost = perform(_refresh(size))
        subject, of_budget = f"refresh over {size:,} idle", size == 1000
        yield row(f"{subject}: requests", cost.requests, "requests", "≤ 30" if of_budget else "")
        yield row(f"{subject}: time", cost.seconds, "s")


async def _refresh(size: int) -> Cost:
    stage = Stage.of()
    await stage.fill(size)

    async def work(ports: Ports, _: Faults) -> None:
        actions = await refresh(ports, SETTINGS)
        assert not actions, actions

    return await stage.cost(work, batched=True)


MEASUREMENTS = (Measurement("refresh over idle instances", idle),)
