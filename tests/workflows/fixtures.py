"""GitHub, a pool and its agents for one test, in virtual time: users start runs, machines die, controllers act."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bullpen.config import Engines, Github, ResourceClass, Settings
from bullpen.engines.memory import MemoryGithub, Rates
from bullpen.engines.memory.github import GithubRun, JobSpec
from bullpen.errors import Unavailable
from bullpen.liveness import LivenessController
from bullpen.model.instance import IDLE, LIVE, TERMINATED, Instance
from bullpen.model.worker import Worker
from bullpen.ports import Conclusion, Ports
from bullpen.provision import Request, provision
from bullpen.release import release
from bullpen.sim.world import World
from bullpen.workflows.alerts import ControllerReport
from bullpen.workflows.controller import WorkflowController

REPOSITORY = "acme/widgets"
LOST_AFTER = 120.0  # seconds in which a dead agent's lease runs out for sure
GIVEN_UP_AFTER = 660.0  # seconds in which GitHub gives up a dead runner's job


def settings(**github: Any) -> Settings:
    given = {"scope": REPOSITORY, "token": "t", "rescue": (REPOSITORY,), **github}
    return Settings(
        engines=Engines(ci="github"),
        github=Github(**given),
        classes={"small": ResourceClass(cpu=1, mem=1024)},
    )


def build(name: str = "build", **fields: Any) -> JobSpec:
    """A job on a runner of the run's label."""
    return JobSpec(name, **{"label": "{run}", "lasts": 1000.0, **fields})


@dataclass
class Scene:
    world: World
    said: ControllerReport = field(default_factory=ControllerReport)
    max_runtime: float = 7200.0
    sweeper: LivenessController = field(init=False)

    def __post_init__(self) -> None:
        self.sweeper = LivenessController(self.ports(), self.world.settings)

    @property
    def hub(self) -> MemoryGithub:
        assert self.world.memory.hub is not None
        return self.world.memory.hub

    # ---- people and machines

    async def run(self, *jobs: JobSpec, runners: int = 1, repository: str = REPOSITORY) -> str:
        """A user starts a run, and its runners are provided; returns its number."""
        run = self.hub.start(repository, *jobs)
        await self.provides(run, runners, repository)
        await asyncio.sleep(10)  # agents say with a beat what their runners do
        return run

    async def run_of_two_labels(self, lasts: float = 60.0) -> str:
        """As `run`: a job on one label, and one that needs it on another; a runner for each."""
        run = self.hub.start(
            REPOSITORY,
            build("build", label="{run}-small", lasts=lasts),
            build("test", label="{run}-test", lasts=30, needs=("build",)),
        )
        for label in (f"{run}-small", f"{run}-test"):
            await self.provides(label, 1)
        await asyncio.sleep(10)
        return run

    async def provides(self, label: str, count: int, repository: str = REPOSITORY) -> None:
        needs = self.world.settings.requirements("small", repository=repository)
        request = Request(label, count, needs, self.max_runtime)
        outcome = await provision(self.world.ports(), self.world.settings, request, stop=asyncio.Event())
        assert outcome.succeeded, outcome.reason

    async def releases(self, label: str) -> None:
        await release(self.world.ports(), self.world.settings, label, stop=asyncio.Event())

    def instances(self, label: str) -> list[Instance]:
        found = sorted(self.world.memory.tables.instances.values(), key=lambda one: one.id)
        return [one for one in found if one.run_id == label and one.state in LIVE]

    def on(self, run: str, job: str) -> str:
        """The instance on which a job of the current attempt runs, or ran last."""
        (found,) = [one for one in self.of(run).jobs if one.spec.name == job]
        return found.runner.split(".")[1]

    def of(self, run: str) -> GithubRun:
        return self.hub.runs[run]

    def dies(self, instance: str) -> None:
        """The machine is gone from one moment to the next."""
        self.world.memory.yard.end(instance)

    def mutes(self, instance: str) -> None:
        """Its agent hangs; its runner goes on."""
        self.world.agents[instance].pause()

    # ---- what stands

    def worker(self, instance: str) -> Worker:
        return self.world.memory.tables.workers[f"{instance}/direct"]

    def state(self, instance: str) -> str:
        return self.world.memory.tables.instances[instance].state

    def why(self, instance: str) -> str:
        """The last word about the worker of an instance."""
        return list(self.world.memory.tables.stories[f"{instance}/direct"])[-1].why

    def conclusions(self, run: str) -> dict[str, Conclusion]:
        return {job.spec.name: job.conclusion for job in self.of(run).jobs}

    def held(self) -> list[str]:
        """Instances that are neither idle nor gone."""
        found = self.world.memory.tables.instances.values()
        return sorted(one.id for one in found if one.state not in (IDLE, TERMINATED))

    # ---- those who look

    def ports(self, rates: Rates | None = None) -> Ports:
        return self.world.ports(rates=rates)

    def controller(self, ports: Ports | None = None) -> WorkflowController:
        return WorkflowController(ports or self.ports(), self.world.settings)

    async def passes(self, seconds: float, *controllers: WorkflowController, every: float = 2.0) -> None:
        """Controllers and a sweeper at work for a while, as services are: one that fails goes on later."""
        for _ in range(int(seconds / every)):
            with suppress(Unavailable):
                if (await self.sweeper.run_once()).sweep.lost:
                    for one in controllers:
                        one.wake()
            for one in controllers:
                with suppress(Unavailable):
                    self.hear(await one.run_once())
            await asyncio.sleep(every)

    def hear(self, said: ControllerReport) -> None:
        self.said.done += said.done
        self.said.alarms += said.alarms

    def alarms(self, what: str, **fields: str) -> int:
        """How often this alarm came, with at least these fields."""
        found = [dict(one.fields) for one in self.said.alarms if one.what == what]
        return sum(fields.items() <= one.items() for one in found)


async def lose(scene: Scene, run: str, *jobs: str) -> list[str]:
    """The machines of these jobs die, and that is noticed."""
    dead = [scene.on(run, job) for job in jobs]
    for one in dead:
        scene.dies(one)
    await scene.passes(LOST_AFTER, scene.controller())
    return dead


@asynccontextmanager
async def a_scene(**github: Any) -> AsyncIterator[Scene]:
    scene = Scene(World(settings=settings(**github)))
    try:
        yield scene
    finally:
        for agent in scene.world.agents.values():
            agent.kill()
