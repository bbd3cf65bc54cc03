"""A stage in real time: one pool on the AWS engines, filled in bulk, with simulated agents, and control planes whose
requests go through the proxy, which counts them and can add 25 ms to each."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from msgspec import structs

from bench.aws_baseline import Baseline
from bench.aws_crowd import Crowd, Options, signal, write
from bench.aws_world import Count, World
from bench.records import buried, on_offer
from bench.stage import REQUEST_LASTS
from bullpen import config
from bullpen.engines.aws import session
from bullpen.engines.aws.dynamodb.entries import derived
from bullpen.engines.aws.dynamodb.items import Item, encode, encode_line, key_of, slot_of, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.system import SystemChance
from bullpen.model.fleet import FleetPlan
from bullpen.model.instance import Instance
from bullpen.model.signal import Kind
from bullpen.model.ticket import UsageClass
from bullpen.model.transition import STORY_LENGTH, Change
from bullpen.pool.offering import send_tickets
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision
from bullpen.refresh import refresh
from bullpen.release import ReleaseOutcome, release
from bullpen.wiring import on_aws

T = TypeVar("T")

CLASS = "small"
LONGEST = 120.0  # seconds that the work of one row may take
TIMINGS = config.Timings(idle=86_400.0, max_runtime=86_400.0)
"""Nothing expires on the stage: only the measured calls do anything."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What some work took: its requests, its time, and the processor time of the control plane, which has this process
    for itself."""

    count: Count
    seconds: float
    processor: float

    @property
    def requests(self) -> int:
        return self.count.total


@dataclass(slots=True)
class Stage:
    """`ports` prepare what is measured; `table` goes around the proxy and may be used at any time."""

    world: World
    settings: config.Settings
    ports: Ports
    table: TableClient

    async def fill(self, count: int, *, trust_domain: str = "") -> list[Instance]:
        """Leave `count` instances on offer, with machines and tickets, but without agents."""
        now = self.ports.clock.now()
        ids = await self._launch(count)
        steps = {id: on_offer(id, now) for id in ids}
        records = [replace(changes[-1].after, trust_domain=trust_domain) for changes in steps.values()]
        await write(self.table, [_item(one, steps[one.id]) for one in records])
        await write(self.table, [signal(one.id, Kind.OK, "", one.round, seq=1) for one in records])
        await send_tickets(self.ports, records)
        return records

    async def bury(self, count: int, run_id: str) -> None:
        """Leave the records of so many terminated instances of a run, not yet purged."""
        now = self.ports.clock.now()
        steps = [buried(f"i-dead{number:013x}", run_id, now) for number in range(count)]
        await write(self.table, [_item(changes[-1].after, changes, whole_story=False) for changes in steps])

    def crowd(self, registers_in: float = 0.0, *, boots_in: float = 0.0, run_id: str = "") -> Crowd:
        own = structs.replace(self.world.direct, pool=self.settings.aws.pool)
        return Crowd(Options(own, registers_in, boots_in, run_id))

    async def provision(self, ports: Ports, run_id: str, count: int) -> Outcome:
        needs = self.settings.requirements(CLASS)
        request = Request(run_id, count, needs, self.settings.timings.max_runtime)
        outcome = await provision(ports, self.settings, request, stop=asyncio.Event())
        assert outcome.succeeded, outcome.reason
        return outcome

    async def release(self, ports: Ports, run_id: str) -> ReleaseOutcome:
        return await release(ports, self.settings, run_id, stop=asyncio.Event())

    async def cost(
        self,
        work: Callable[[Ports], Coroutine[Any, Any, object]],
        *,
        latency: float = REQUEST_LASTS,
        metered: bool = False,
    ) -> Cost:
        """What a control plane needs for some work. Its clients are open, and it knows nothing of the pool yet."""
        async with on_aws(self.settings) as ports:
            await asyncio.gather(ports.records.provision("p-none"), ports.queue.count("none"))
            return await self._measured(work(ports), latency, metered)

    async def baseline_cost(self, run_id: str, count: int, *, latency: float = REQUEST_LASTS) -> Cost:
        """What the baseline needs for the same provision."""
        async with session.opened(self.settings.aws) as cloud:
            baseline = await Baseline.of(cloud, self.settings, self.settings.requirements(CLASS), run_id)

            async def work() -> None:
                served = await baseline.provision(count)
                assert len(served) == count, f"the baseline served {len(served)} of {count}"

            return await self._measured(work(), latency)

    async def _measured(self, work: Coroutine[Any, Any, object], latency: float, metered: bool = False) -> Cost:
        loop = asyncio.get_running_loop()
        self.world.count(latency, metered=metered)
        began, spent = loop.time(), time.process_time()
        async with asyncio.timeout(LONGEST):
            await work
        seconds, processor = loop.time() - began, time.process_time() - spent
        return Cost(self.world.count(), seconds, processor)

    async def _launch(self, count: int) -> list[str]:
        token = self.ports.chance.token()
        plan = FleetPlan(token, "p-filled", "", count, CLASS, UsageClass.ON_DEMAND, ("*",), 1, 1024)
        answer = await self.ports.compute.create_fleet(plan)
        assert len(answer.machines) == count, answer.errors
        return [machine.id for machine in answer.machines]


@asynccontextmanager
async def a_stage(world: World) -> AsyncIterator[Stage]:
    """A pool of its own: its table, its queue and its template made by refresh."""
    pool = f"bench-{secrets.token_hex(6)}"
    settings = config.Settings(
        engines=config.Engines(pool="aws"),
        aws=structs.replace(world.counted, pool=pool),
        timings=TIMINGS,
        limits=config.Limits(max_instances=10_000, max_count=1000),
        classes={CLASS: config.ResourceClass(cpu=1, mem=1024)},
    )
    async with on_aws(settings) as ports, session.opened(structs.replace(world.direct, pool=pool)) as cloud:
        await refresh(ports, settings)
        yield Stage(world, settings, ports, TableClient(cloud, SystemChance()))


def perform(world: World, story: Callable[[Stage], Coroutine[Any, Any, T]]) -> T:
    """Run a story on a stage of its own."""

    async def main() -> T:
        async with a_stage(world) as stage:
            return await story(stage)

    return asyncio.run(main())


def _item(record: Instance, steps: Sequence[Change[Instance]], *, whole_story: bool = True) -> Item:
    """A record as if every step had been written: its attributes, its entries in the indexes, and a whole story, as
    long as after many runs: what a write costs depends on it."""
    told = [change.line for change in steps if change.line is not None]
    if whole_story:
        told = [*(replace(told[-1], version=version) for version in range(STORY_LENGTH)), *told]
    return {
        **key_of(Instance, record.id),
        **encode(record),
        **{name: value for name, value in derived(record).items() if value is not None},
        "story": {"M": {slot_of(line): encode_line(line) for line in told}},
        "stamp": text("filled"),
    }
