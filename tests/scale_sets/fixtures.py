"""A world with one scale set: GitHub in memory, a pool, and processes that serve it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bullpen.config import Engines, Github, ResourceClass, ScaleSetSettings, Settings, Timings
from bullpen.controllers import Service
from bullpen.engines.memory.github import JobSpec, MemoryGithub
from bullpen.engines.memory.set_records import StoredSet
from bullpen.model import scale_set as sets
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.ports import Ports, ScaleSetSpec
from bullpen.scale_sets.rules import rules_of
from bullpen.sim.process import Process
from bullpen.sim.world import World
from fixtures import a_world
from set_builders import MARK

SET = "bullpen-small"
REPOSITORY = "acme/widgets"


def settings_of(
    timings: Timings | None = None,
    idle_target: int = 0,
    rescue: tuple[str, ...] = (),
    webhook_secret: str = "",
    **scale_set: Any,
) -> Settings:
    """One class, and one set of it."""
    served = ScaleSetSettings(**{"events": "trusted", "max": 20, **scale_set})
    sets = {"small": served}
    github = Github(scope=REPOSITORY, token="t", rescue=rescue, webhook_secret=webhook_secret, scale_sets=sets)
    return Settings(
        engines=Engines(ci="github"),
        timings=timings or Timings(),
        agent=msgspec.structs.replace(Settings().agent, serve_url="https://serve.example"),
        github=github,
        classes={"small": ResourceClass(cpu=1, mem=1024, idle_target=idle_target)},
    )


@asynccontextmanager
async def a_set_world(settings: Settings | None = None, **fields: Any) -> AsyncIterator[World]:
    """The set exists, at GitHub and in the records. No process listens yet."""
    async with a_world(settings=settings or settings_of(), **fields) as world:
        await make_set(world)
        yield world


async def make_set(world: World) -> ScaleSet:
    ports = world.ports(rates=None)
    (rules,) = rules_of(world.settings).values()
    at = ports.clock.now()
    wanted = sets.want(sets.absent(SET), sets.SetWanted(at=at, by="a test", rules=rules, mark=MARK))
    (stored,) = await ports.records.apply(wanted)
    made = hub_of(world).sets.create(ScaleSetSpec(SET, labels=(SET, MARK)))
    found = sets.SetFound(at=at, by="a test", ci_id=made.id, group_id=1)
    (stored,) = await ports.records.apply(sets.found(stored, found))
    assert isinstance(stored, ScaleSet)
    return stored


async def main(world: World, ports: Ports, name: str, stop: asyncio.Event | None = None) -> None:
    """What a process of `serve` does, until it is killed or stops."""
    await Service(ports, world.settings, process=name).run(stop or asyncio.Event())


def serve(
    world: World,
    name: str = "web-1",
    skew: float = 0.0,
    between: Callable[[Ports], Ports] = lambda ports: ports,
    stop: asyncio.Event | None = None,
) -> Process:
    """A process of `serve`. `between` may change its access to the services, `stop` is its SIGTERM."""
    process, _ = world.start(name, lambda ports: main(world, between(ports), name, stop), skew=skew)
    world.agents[name] = process  # ends with the world
    return process


def hub_of(world: World) -> MemoryGithub:
    assert world.memory.hub is not None
    return world.memory.hub


def set_of(world: World) -> StoredSet:
    (found,) = hub_of(world).sets.sets.values()
    return found


def push(world: World, jobs: int = 1, lasts: float = 60.0, **spec: Any) -> str:
    """Start a workflow whose jobs ask for the set; returns the run's number."""
    specs = [JobSpec(f"job-{n}", label=SET, lasts=lasts, **spec) for n in range(jobs)]
    return hub_of(world).start(REPOSITORY, *specs)


def is_done(world: World, runs: Sequence[str]) -> bool:
    return all(hub_of(world).runs[run].completed for run in runs)


async def until_done(world: World, *runs: str, within: float = 3600.0) -> float:
    """Wait for runs to complete; returns the seconds that it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not is_done(world, runs):
        assert loop.time() < began + within, f"not done within {within:g} s: {states(world, runs)}"
        await asyncio.sleep(0.5)
    return loop.time() - began


def states(world: World, runs: Sequence[str]) -> list[str]:
    found = [job for run in runs for job in hub_of(world).runs[run].jobs if not job.completed]
    return [f"{job.spec.name} on {job.runner or 'no runner'}" for job in found]


def members(world: World) -> list[Instance]:
    return [
        one for one in world.memory.tables.instances.values() if one.state is RUNNING and one.run_id == f"set:{SET}"
    ]


def session(world: World) -> SetSession:
    return world.memory.tables.set_sessions[f"session:{SET}"]
