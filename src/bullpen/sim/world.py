"""A world to run the control plane in: memory engines, and an agent for every machine that is launched.

Everything but the engines is the real thing: the use cases run unchanged, and each simulated agent acts on the same
`decide()` as a real one. What an agent is made to do wrong is in its `Temper`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import field
from typing import Any, TypeVar

from bullpen.config import Settings
from bullpen.engines.memory import Faults, LoopClock, Memory, Rates, SeededChance, Yard
from bullpen.lazy_dataclass import dataclass
from bullpen.model.activity import Activity
from bullpen.model.fleet import FleetPlan, LaunchedMachine
from bullpen.ports import Ports
from bullpen.sim.agent import SimulatedAgent, Temper
from bullpen.sim.loop import VirtualLoop
from bullpen.sim.process import Process

T = TypeVar("T")


@dataclass(slots=True)
class World:
    """All services and machines. `temper` decides how the agent of the n-th machine behaves."""

    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    rates: Rates = field(default_factory=Rates)
    index_lag: float = 0.0
    capacity: int = 1000
    temper: Callable[[int], Temper] = lambda n: Temper()
    memory: Memory = field(init=False)
    agents: dict[str, Process] = field(default_factory=dict)
    tempers: dict[str, Temper] = field(default_factory=dict)
    """By machine; an agent follows a change at once."""
    clock: LoopClock = field(default_factory=LoopClock)
    _launched: int = 0
    _processes: int = 0

    def __post_init__(self) -> None:
        yard = Yard(capacity=self.capacity, on_launch=self._launch, on_end=self._end)
        self.memory = Memory(index_lag=self.index_lag, yard=yard, github=self.settings.on_github, seed=self.seed)
        if self.memory.hub is not None:
            self.memory.hub.on_work = self._work
            self.memory.hub.set_runners.on_drop = self._drop

    def ports(self, skew: float = 0.0, rates: Rates | None = None) -> Ports:
        """The access of a new process, with chances and faults of its own."""
        self._processes += 1
        own = self.seed * 1_000_003 + self._processes
        faults = Faults(own, self.rates if rates is None else rates)
        return self.memory.ports(LoopClock(skew=skew), SeededChance(own), faults)

    def start(
        self, name: str, main: Callable[[Ports], Coroutine[Any, Any, T]], *, skew: float = 0.0
    ) -> "tuple[Process, asyncio.Task[T]]":
        """Run something as a process of its own, which can be killed at any of its callbacks."""
        process = Process(name)
        return process, _loop().spawn(process, main(self.ports(skew)))

    def _launch(self, machine: LaunchedMachine, plan: FleetPlan) -> None:
        temper = self.tempers[machine.id] = self.temper(self._launched)
        agent = SimulatedAgent(machine.id, self.memory, self.ports(temper.skew, Rates()), self.settings, temper)
        self._launched += 1
        process = self.agents[machine.id] = Process(f"agent of {machine.id}")
        _loop().spawn(process, agent.live())

    def _work(self, machine_id: str, activity: Activity | None) -> None:
        """The CI gave a runner a job, or it has ended."""
        if machine_id in self.tempers:
            self.tempers[machine_id].work(activity)

    def _drop(self, runner: str) -> None:
        """The CI removed the registration of a runner that waits for a job of its scale set."""
        hub = self.memory.hub
        machine_id = hub.instance_of(runner) if hub is not None else None
        if machine_id is not None and machine_id in self.tempers:
            self.tempers[machine_id].drop(runner)

    def _end(self, machine_id: str) -> None:
        self.agents[machine_id].kill()
        if self.memory.hub is not None:
            self.memory.hub.lose(machine_id)


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "a world lives on a virtual loop"
    return loop
