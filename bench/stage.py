"""A stage in virtual time: a world with a pool, and control planes whose requests take 25 ms each and are counted."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bullpen.config import Limits, ResourceClass, Settings, Timings
from bullpen.engines.memory import Faults, LoopClock, Memory, Rates, SeededChance
from bullpen.engines.memory.queue import MemoryQueue
from bullpen.engines.memory.signals import MemorySignals
from bullpen.model.instance import RUNNING
from bullpen.model.signal import Pulse
from bullpen.ports import Message, Ports
from bullpen.provision import Outcome, Request, provision
from bullpen.release import ReleaseOutcome, release
from bullpen.sim.agent import Temper
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World

T = TypeVar("T")

REQUEST_LASTS = 0.025
REGISTERS_IN = 5.5
"""Seconds that a warm runner takes to register with GitHub."""

SETTINGS = Settings(
    # Nothing expires on the stage: time passes in which only the measured calls do anything.
    timings=Timings(idle=86_400.0, max_runtime=86_400.0),
    limits=Limits(max_instances=10_000, max_count=1000),
    classes={"small": ResourceClass(cpu=1, mem=1024)},
)


@dataclass(frozen=True, slots=True)
class Cost:
    requests: int
    seconds: float


@dataclass(slots=True)
class Stage:
    """A world in which every agent registers in `registers_in` seconds and needs no time for anything else."""

    world: World

    @classmethod
    def of(cls, registers_in: float = 0.0, *, settings: Settings = SETTINGS, **world: Any) -> "Stage":
        temper = Temper(boots_in=0.0, registers_in=registers_in, cleans_in=0.0)
        return cls(World(settings=settings, capacity=10_000, temper=lambda n: temper, **world))

    async def fill(self, count: int, trust_domain: str = "default") -> list[str]:
        """Leave `count` clean instances on offer, used by an earlier run of a trust domain; their ids."""
        ports, run_id = self.world.ports(rates=Rates()), f"fills the pool for {trust_domain}"
        outcome = await self.provision(ports, run_id, count, trust_domain)
        released = await release(ports, self.world.settings, run_id, stop=asyncio.Event())
        assert len(released.offered) == outcome.created == count, released
        return list(released.offered)

    async def provision(self, ports: Ports, run_id: str, count: int, trust_domain: str = "default") -> Outcome:
        settings = self.world.settings
        needs = settings.requirements("small", trust_domain=trust_domain)
        request = Request(run_id, count, needs, settings.timings.max_runtime)
        outcome = await provision(ports, settings, request, stop=asyncio.Event())
        assert outcome.succeeded, outcome.reason
        return outcome

    async def release(self, ports: Ports, run_id: str) -> ReleaseOutcome:
        return await release(ports, self.world.settings, run_id, stop=asyncio.Event())

    def running(self, run_id: str) -> int:
        return sum(one.run_id == run_id and one.state is RUNNING for one in self.world.memory.tables.instances.values())

    async def cost(
        self, work: Callable[[Ports, Faults], Coroutine[Any, Any, object]], *, batched: bool = False
    ) -> Cost:
        """What a new control plane needs for some work. `batched`: in the batches that SQS and DynamoDB take."""
        half = REQUEST_LASTS / 2
        faults = Faults(seed=1, rates=Rates(latency=(half, half)))
        ports = self.world.memory.ports(LoopClock(), SeededChance(1_000_000_007), faults)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await work(in_batches(ports, self.world.memory, faults) if batched else ports, faults)
        return Cost(faults.requests.total(), loop.time() - began)


def perform(main: Coroutine[Any, Any, T]) -> T:
    """Run on a virtual loop; the agents still live when it ends."""
    return virtual_run(main, allow_left_behind=True)


def in_batches(ports: Ports, memory: Memory, faults: Faults) -> Ports:
    """Ports whose reads of queues and signals are cut into the requests that SQS and DynamoDB would need."""
    return replace(
        ports, queue=TenAtATime(memory.queues, faults), signals=HundredAtATime(memory.reports, memory.tables, faults)
    )


class TenAtATime(MemoryQueue):
    """SQS: ten messages a call, and what was received must be deleted."""

    async def take(self, resource_class: str, limit: int) -> list[str]:
        return [body for bodies in await self._portions(resource_class, limit) for body in bodies]

    async def send(self, resource_class: str, messages: Sequence[Message], delay: float = 0.0) -> None:
        portions = (messages[at : at + 10] for at in range(0, len(messages), 10))
        await asyncio.gather(*(super(TenAtATime, self).send(resource_class, some, delay) for some in portions))

    async def _portions(self, resource_class: str, limit: int) -> list[list[str]]:
        return await asyncio.gather(*(self._ten(resource_class, min(10, limit - at)) for at in range(0, limit, 10)))

    async def _ten(self, resource_class: str, limit: int) -> list[str]:
        bodies = await super().take(resource_class, limit)
        if bodies:
            await self._faults.call("queue.delete", lambda: None)
        return bodies


class HundredAtATime(MemorySignals):
    """DynamoDB: a hundred items in a batched read, and an instance has two, its signal and its heartbeat."""

    async def read(self, ids: Sequence[str]) -> dict[str, Pulse]:
        portions = (ids[at : at + 50] for at in range(0, len(ids), 50))
        answers = await asyncio.gather(*(super(HundredAtATime, self).read(some) for some in portions))
        return {id: pulse for answer in answers for id, pulse in answer.items()}
