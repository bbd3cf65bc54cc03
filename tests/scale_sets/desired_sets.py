"""A world with GitHub's scale sets in memory, and passes over its sets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from bullpen.config import ScaleSetSettings, Settings
from bullpen.model import set_session as sessions
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.ports import Ports, RegisteredSet, ScaleSetSpec
from bullpen.scale_sets.desired import DesiredSets
from bullpen.sim.world import World
from fixtures import a_world, on_github
from set_builders import renew, take

NAME = "bullpen-small"


def settings(*keys: str, **changed: Any) -> Settings:
    """With one set for each key, of class small."""
    hub = changed.pop("github", {})
    fields = {"events": "trusted", "resource_class": "small", **changed}
    sets = {key: ScaleSetSettings(**{"name": f"bullpen-{key}", **fields}) for key in keys}
    return on_github(scale_sets=sets, **hub)


@asynccontextmanager
async def github() -> AsyncIterator[World]:
    async with a_world(settings=settings("small")) as world:
        yield world


def desired(world: World, of: Settings | None = None, ports: Ports | None = None, **fields: Any) -> DesiredSets:
    return DesiredSets(ports or world.ports(), of or world.settings, by="test", **fields)


async def pass_over(world: World, of: Settings | None = None, **fields: Any) -> list[str]:
    """What one pass did to all sets; it must not fail."""
    report = await desired(world, of, **fields).run_once()
    assert report.failures == {}
    return [action.what for action in report.actions]


async def failure(world: World, of: Settings | None = None, **fields: Any) -> str:
    report = await desired(world, of, **fields).run_once()
    (error,) = report.failures.values()
    return f"{error} {error.remedy}"


def record(world: World, name: str = NAME) -> ScaleSet:
    return world.memory.tables.scale_sets[f"set:{name}"]


def at_github(world: World) -> dict[str, RegisteredSet]:
    assert world.memory.hub is not None
    service = world.memory.hub.sets
    return {one.spec.name: replace(service.shown(one), statistics=None) for one in service.sets.values()}


def hide(world: World, repository: str = "acme/widgets") -> None:
    """GitHub does not show this repository, as if the App were not installed there."""
    has_id(world, 0, repository)


def has_id(world: World, id: int, repository: str = "acme/widgets") -> None:
    assert world.memory.hub is not None
    world.memory.hub.repositories[repository] = id


def a_strangers(world: World, name: str = NAME, group: str = "") -> int:
    assert world.memory.hub is not None
    return world.memory.hub.sets.create(ScaleSetSpec(name, group, ("theirs",))).id


async def listens(world: World, holder: str = "web-1", name: str = NAME) -> SetSession:
    (stored,) = await world.ports().records.apply(take(sessions.absent(name), holder))
    assert isinstance(stored, SetSession)
    return stored


async def keep_listening(world: World, session: SetSession, until: float = 60.0) -> None:
    for _ in range(int(until / 5)):
        await asyncio.sleep(5)
        (session,) = await world.ports().records.apply(renew(session))
