"""A world for one test: use cases with their usual settings, and agents that are gone when the test ends."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bullpen.config import Engines, Github, ResourceClass, Settings, Timings
from bullpen.engines.memory import Failure, Faults, Rates
from bullpen.engines.memory.records import MemoryRecords
from bullpen.model.activity import Activity
from bullpen.model.instance import Instance, State
from bullpen.model.progress import Tell
from bullpen.model.ticket import Ticket, parse_ticket
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision
from bullpen.refresh import Action, refresh
from bullpen.release import ReleaseOutcome, release
from bullpen.sim.world import World


@asynccontextmanager
async def a_world(**fields: Any) -> AsyncIterator[World]:
    world = World(**fields)
    try:
        yield world
    finally:
        for agent in world.agents.values():
            agent.kill()


def small(timings: Timings | None = None, **changed: Any) -> Settings:
    """Settings with one class."""
    return Settings(
        timings=timings or Timings(),
        classes={"small": ResourceClass(**{"cpu": 1, "mem": 1024, **changed})},
    )


def on_github(timings: Timings | None = None, **github: Any) -> Settings:
    """Settings with one class, and GitHub as the CI."""
    hub = Github(**{"scope": "acme/widgets", "token": "t", **github})
    return msgspec.structs.replace(small(timings), engines=Engines(ci="github"), github=hub)


def begin_job(world: World, id: str, run: str = "4711") -> Activity:
    """The CI gives a job to the runner of an instance, whatever its record says; a heartbeat tells at once."""
    activity = Activity("acme/widgets", run, 1, run, f"bullpen.{id}.0", "build")
    world.tempers[id].work(activity)
    return activity


def end_job(world: World, id: str) -> None:
    world.tempers[id].work(None)


async def provisioned(
    world: World, run_id: str, count: int, ports: Ports | None = None, stop: asyncio.Event | None = None, **needs: Any
) -> Outcome:
    """Provision; `needs` are arguments of `Settings.requirements`, and fields of the request, and `tell`."""
    partial, lasts = needs.pop("allow_partial", False), needs.pop("max_runtime", world.settings.timings.max_runtime)
    wait, tell = needs.pop("wait", 0.0), needs.pop("tell", lambda report: None)
    resource_class = needs.pop("resource_class", "small")
    wanted = world.settings.requirements(resource_class, **needs)
    request = Request(run_id, count, wanted, lasts, allow_partial=partial, wait=wait)
    return await provision(ports or world.ports(), world.settings, request, stop=stop or asyncio.Event(), tell=tell)


async def released(world: World, run_id: str, ports: Ports | None = None) -> ReleaseOutcome:
    return await release(ports or world.ports(), world.settings, run_id, stop=asyncio.Event())


async def refreshed(
    world: World, ports: Ports | None = None, *, dry_run: bool = False, tell: Tell = lambda report: None
) -> list[Action]:
    return await refresh(ports or world.ports(), world.settings, dry_run=dry_run, tell=tell)


async def with_pool(world: World, count: int, **needs: Any) -> list[str]:
    """`count` instances on offer, used before; their ids in order."""
    outcome = await provisioned(world, "before", count, **needs)
    assert outcome.succeeded, outcome.reason
    await released(world, "before")
    return sorted(member.instance.id for member in outcome.members)


def ids(outcome: Outcome) -> list[str]:
    return sorted(member.instance.id for member in outcome.members)


def records(world: World, *states: State) -> list[Instance]:
    """Instances by id, of these states or of all."""
    found = sorted(world.memory.tables.instances.values(), key=lambda one: one.id)
    return [one for one in found if not states or one.state in states]


def machines(world: World) -> list[str]:
    return sorted(world.memory.yard.machines)


def tickets(world: World, resource_class: str = "small") -> list[Ticket]:
    queue = world.memory.queues.get(resource_class)
    parsed = [parse_ticket(body) for body in queue.bodies()] if queue else []
    return [ticket for ticket in parsed if isinstance(ticket, Ticket)]


def faults(ports: Ports) -> Faults:
    assert isinstance(ports.records, MemoryRecords)
    return ports.records._faults


def requests(ports: Ports) -> Counter[str]:
    return faults(ports).requests


def steps(world: World, record_id: str) -> list[str]:
    """The names of the steps of a record's story."""
    return [line.step for line in world.memory.tables.stories.get(record_id, ())]


def mute(world: World, chosen: Sequence[str]) -> None:
    """These agents hang from now on: no signal, no heartbeat."""
    for id in chosen:
        world.agents[id].pause()


def now() -> float:
    return asyncio.get_running_loop().time()


__all__ = [
    "Failure",
    "Rates",
    "a_world",
    "begin_job",
    "end_job",
    "faults",
    "ids",
    "machines",
    "mute",
    "now",
    "on_github",
    "provisioned",
    "records",
    "refreshed",
    "released",
    "requests",
    "small",
    "steps",
    "tickets",
    "with_pool",
]
