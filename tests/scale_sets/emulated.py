"""Scale sets on the independent emulator of their service: records, pool and machines in memory, on a real event loop.

`serve` holds the sets as it always does. The agents are simulated ones that get their registrations from the emulator,
which has no jobs that run by themselves: `EmulatedWorld.work` gives waiting jobs to registered runners, and ends them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from bullpen.agent.progress import AgentProgress, InstanceRecord
from bullpen.config import Github
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.scale_sets.port import GithubScaleSets
from bullpen.engines.memory.github import POOL
from bullpen.engines.system import SystemClock
from bullpen.errors import NotFound, Unavailable
from bullpen.model.activity import Activity, Listening
from bullpen.model.fleet import FleetPlan, LaunchedMachine
from bullpen.model.served_set import served
from bullpen.ports import Ports, Removal
from bullpen.ports.demand import JobDemand
from bullpen.refresh import refresh
from bullpen.scale_sets.controller import ScaleSetController
from bullpen.sim.agent import SimulatedAgent, Temper
from bullpen.sim.world import World
from fakes.scale_sets.emulator import Emulator
from scale_sets.fixtures import REPOSITORY, SET, settings_of

PATIENCE = 180.0  # seconds; what is waited for takes a few at most
EVERY = 0.1  # seconds between two looks


class EmulatedAgent(SimulatedAgent):
    """Its registrations are the emulator's, where each is a runner that waits."""

    sets: GithubScaleSets
    is_at_work = False  # as it knows
    _number = 0

    def _follow(self, progress: AgentProgress) -> AgentProgress:
        progress = super()._follow(progress)
        self.is_at_work = progress.activity is not None
        return progress

    async def _register_for_set(self, record: InstanceRecord, progress: AgentProgress) -> AgentProgress:
        scale_set = (await self._ports.records.scale_sets())[SET]
        self._number += 1
        name = f"{POOL}.{self._id}.{record.round[:8]}.{self._number}"
        try:
            made = await self.sets.configure(scale_set.ci_id, name, "_work")
        except (NotFound, Unavailable):  # the set is made again, or GitHub fails
            await asyncio.sleep(EVERY)
            return progress
        self._runner = Listening(name, made.runner.id, served(scale_set).digest)
        self._temper.stirred.set()
        return progress.registering(record, name).listening()

    async def _hang_up(self, progress: AgentProgress) -> AgentProgress:
        runner = self._runner
        try:
            is_busy = runner is not None and await self.sets.remove_runner(runner.id) is Removal.BUSY
        except Unavailable:
            is_busy = True
        if is_busy or self._temper.activity is not None:
            await asyncio.sleep(EVERY)
            return progress
        self._end_runner()
        return progress.hung_up()


class EmulatedWorld(World):
    """One process of `serve`, and the emulator."""

    def __init__(self, emulator: Emulator, **scale_set: Any) -> None:
        super().__init__(settings=settings_of(**scale_set), temper=lambda n: Temper(0.0, 0.0, 0.0))
        self.emulator = emulator
        settings = Github(scope=REPOSITORY, url=emulator.url, token=emulator.token)
        self.client = GithubClient(settings, SystemClock())
        self.sets = GithubScaleSets(self.client, SystemClock())
        self.tasks: list[asyncio.Task[Any]] = []
        self._agents: dict[str, EmulatedAgent] = {}  # by machine
        self._working: dict[int, str] = {}  # machines by the job that runs there
        self.controller: ScaleSetController | None = None

    def ports(self, *args: Any, **fields: Any) -> Ports:
        return replace(super().ports(*args, **fields), scale_sets=self.sets)

    async def start_serving(self) -> None:
        """Make the set and fill the pool, then hold the set."""
        ports = self.ports()
        target = self.settings.classes["small"].idle_target

        async def filled() -> bool:
            await refresh(ports, self.settings)
            return sum(one.is_claimable for one in self.memory.tables.instances.values()) >= target

        await self.until(filled, "the pool is filled")
        self.controller = ScaleSetController(ports, self.settings, "web-1")
        self.tasks.append(asyncio.create_task(self._serve(self.controller)))
        await self.until(lambda: self.demand is not None, "serve listens")

    async def _serve(self, controller: ScaleSetController) -> None:
        while True:
            await controller.run_once()
            await asyncio.sleep(EVERY)

    @property
    def set_id(self) -> int:
        return self.memory.tables.scale_sets[f"set:{SET}"].ci_id

    @property
    def demand(self) -> JobDemand | None:
        held = self.controller.held.get(SET) if self.controller is not None else None
        return held.listener.current() if held is not None else None

    def queue(self, count: int) -> list[int]:
        return [self.emulator.queue(self.set_id, SET) for _ in range(count)]

    async def until_done(self, jobs: list[int]) -> None:
        """Runners take the jobs and complete them, and the process that serves knows that none is left."""

        def is_done() -> bool:
            self.work()
            found = {one["id"]: one["state"] for one in self.emulator.state()["jobs"]}
            return all(found[job] == "completed" for job in jobs)

        await self.until(is_done, f"{len(jobs)} jobs are completed")
        await self.until(lambda: self.knows(0, 0), "no job is counted any more")

    def knows(self, assigned: int, running: int) -> bool:
        demand = self.demand
        return demand is not None and (demand.assigned, demand.running) == (assigned, running)

    def work(self) -> None:
        """Jobs that run end, and those that wait go to runners that wait."""
        state = self.emulator.state()
        for job, machine in [one for one in self._working.items() if self._agents[one[1]].is_at_work]:
            self.emulator.complete_job(job)
            self.tempers[machine].work(None)
            del self._working[job]
        idle = [one for one in state["runners"] if one["job"] is None]
        waiting = [one for one in state["jobs"] if one["state"] == "assigned"]
        for runner, job in zip(idle, waiting, strict=False):
            self.emulator.start_job(job["id"], runner["name"])
            machine = runner["name"].split(".")[1]
            self._working[job["id"]] = machine
            self.tempers[machine].work(Activity(REPOSITORY, "1", 1, f"set:{SET}", runner["name"], "job"))

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        ends = asyncio.get_running_loop().time() + PATIENCE
        while not (await found if asyncio.iscoroutine(found := holds()) else found):
            broken = [one for one in self.tasks if one.done() and not one.cancelled() and one.exception()]
            assert not broken, broken
            assert asyncio.get_running_loop().time() < ends, f"not within {PATIENCE:g} s: {what}"
            await asyncio.sleep(EVERY)

    def _launch(self, machine: LaunchedMachine, plan: FleetPlan) -> None:
        temper = self.tempers[machine.id] = self.temper(0)
        agent = self._agents[machine.id] = EmulatedAgent(
            machine.id, self.memory, World.ports(self), self.settings, temper
        )
        agent.sets = self.sets
        self.tasks.append(asyncio.get_running_loop().create_task(agent.live()))

    def _end(self, machine_id: str) -> None:
        raise AssertionError(f"{machine_id} was ended")


@asynccontextmanager
async def an_emulated_world(emulator: Emulator, **scale_set: Any) -> AsyncIterator[EmulatedWorld]:
    """A set that is served, and a warm pool."""
    world = EmulatedWorld(emulator, **scale_set)
    try:
        await world.start_serving()
        yield world
    finally:
        if world.controller is not None:
            await world.controller.stop()
        for task in world.tasks:
            task.cancel()
        await asyncio.gather(*world.tasks, return_exceptions=True)
        await world.client.aclose()
