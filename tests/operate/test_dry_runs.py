"""A dry run changes nothing, and says what the order then does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bullpen.config import ResourceClass, Settings
from bullpen.model.instance import CREATED, IDLE, RUNNING, TERMINATED
from bullpen.operate import OperateOutcome, drain, pause, resume, rotate
from bullpen.sim.world import World
from fixtures import a_world, provisioned, records, refreshed, released

Order = Callable[..., Awaitable[OperateOutcome]]

SETTINGS = Settings(
    classes={
        "small": ResourceClass(cpu=1, mem=1024, idle_target=2),
        "large": ResourceClass(cpu=1, mem=1024, idle_target=1),
    }
)


async def in_every_state(world: World) -> None:
    """Instances on offer, booting, running, being cleaned, drained and ended."""
    await refreshed(world)
    await asyncio.sleep(60)
    await refreshed(world)
    await provisioned(world, "ends", 1)
    await released(world, "ends")
    await provisioned(world, "runs", 2)
    await drain(world.ports(), world.settings, [records(world, RUNNING)[0].id], operator="ada")
    await provisioned(world, "cleans", 1)
    releasing, _ = world.start("release", lambda ports: released(world, "cleans", ports))
    while not any(not one.attested for one in records(world, IDLE)):  # noqa: ASYNC110
        await asyncio.sleep(0)
    releasing.kill()
    await refreshed(world)
    assert {one.state for one in records(world)} >= {CREATED, IDLE, RUNNING}


def every_instance(world: World) -> list[str]:
    return [one.id for one in records(world, CREATED, IDLE, RUNNING, TERMINATED)]


ORDERS: dict[str, Callable[[World], Callable[..., Awaitable[OperateOutcome]]]] = {
    "drain instances": lambda world: (
        lambda **more: drain(world.ports(), world.settings, every_instance(world), note="disk", **more)
    ),
    "drain a class": lambda world: lambda **more: drain(world.ports(), world.settings, (), "small", **more),
    "rotate a class": lambda world: lambda **more: rotate(world.ports(), world.settings, "small", **more),
    "rotate the pool": lambda world: lambda **more: rotate(world.ports(), world.settings, "", **more),
    "pause a class": lambda world: lambda **more: pause(world.ports(), world.settings, "small", "broken", **more),
    "pause the pool": lambda world: lambda **more: pause(world.ports(), world.settings, "", "broken", **more),
    "change a note": lambda world: lambda **more: pause(world.ports(), world.settings, "large", "another", **more),
    "resume a class": lambda world: lambda **more: resume(world.ports(), world.settings, "large", **more),
    "resume what is not paused": lambda world: lambda **more: resume(world.ports(), world.settings, "small", **more),
}


def stored(world: World) -> dict[str, Any]:
    tables = world.memory.tables
    records = {name: dict(getattr(tables, name)) for name in ("instances", "pauses", "rotations", "provisions")}
    return records | {"activity": list(world.memory.ledger.notes)}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
async def test_what_a_dry_run_says_is_done_and_nothing_before(order: Callable[[World], Order]) -> None:
    async with a_world(settings=SETTINGS) as world:
        await in_every_state(world)
        await pause(world.ports(), world.settings, "large", "the image is broken", operator="ada")
        before = stored(world)
        would = await order(world)(operator="bob", dry_run=True)
        assert stored(world) == before
        done = await order(world)(operator="bob")
        assert would.actions == done.actions
        assert (would.dry_run, done.dry_run) == (True, False)
