"""kill -9 of provision and of release at moments spread over their whole life: is any instance of the pool lost?

Refresh goes on looking once in a while, as it does from a timer. Lost is an instance that was idle or claimed and, once
every deadline has passed, is terminated, or neither claimable nor running for its run.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from msgspec import structs

from bench import stage
from bench.stage import Stage, perform
from bench.table import Measurement, Row, row
from bullpen.model.instance import RUNNING
from bullpen.ports import Ports
from bullpen.refresh import refresh

RUN = "killed"
# Deadlines as short as they can be: what is simulated until they have passed is mostly heartbeats.
SETTINGS = structs.replace(
    stage.SETTINGS,
    timings=structs.replace(
        stage.SETTINGS.timings, provision=30.0, claim_grace=10.0, validation=20.0, cleaning=10.0, heartbeat=15.0
    ),
)
LOOKS, BETWEEN_LOOKS = 5, 20.0
"""Of refresh: after the deadlines it rolls overdue claims back, and one look later they are clean."""

Victim = Callable[[Stage, Ports, int], Coroutine[Any, Any, object]]


def lost_by_kill(pools: Sequence[int] = (5, 20), moments: int = 20) -> Iterator[Row]:
    for name, victim in VICTIMS.items():
        for pool in pools:
            steps, _ = perform(_history(victim, pool, die_at=None))
            chosen = [1 + number * steps // moments for number in range(moments)]
            lost = sum(perform(_history(victim, pool, die_at=moment))[1] for moment in chosen)
            subject = f"instances lost by kill -9 of {name}, pool of {pool}, at {moments} moments"
            yield row(subject, lost, "instances", "= 0")


async def _history(victim: Victim, pool: int, die_at: int | None) -> tuple[int, int]:
    """How many callbacks the victim lived for, and how many instances of the pool were lost in the end."""
    there = Stage.of(0.2, settings=SETTINGS)
    members = await there.fill(pool)
    if victim is _releases:
        await there.provision(there.world.ports(), RUN, pool)
    process, _ = there.world.start("victim", lambda ports: victim(there, ports, pool))
    process.die_at = die_at
    await process.ended()
    await _come_to_rest(there)
    return process.steps, _lost(there, members)


async def _come_to_rest(there: Stage) -> None:
    ports = there.world.ports()
    for _ in range(LOOKS):
        await asyncio.sleep(BETWEEN_LOOKS)
        await refresh(ports, SETTINGS)


def _lost(there: Stage, members: Sequence[str]) -> int:
    stored = there.world.memory.tables.instances
    serving = there.running(RUN)
    safe = [id for id in members if id in stored and (stored[id].is_claimable or stored[id].state is RUNNING)]
    assert serving in (0, len(members)), f"{RUN} has {serving} of {len(members)}"
    return len(members) - len(safe)


async def _provisions(there: Stage, ports: Ports, pool: int) -> None:
    await there.provision(ports, RUN, pool)


async def _releases(there: Stage, ports: Ports, _: int) -> None:
    await there.release(ports, RUN)


VICTIMS: dict[str, Victim] = {"provision": _provisions, "release": _releases}

MEASUREMENTS = (Measurement("instances lost by kill -9", lost_by_kill),)
