"""Histories: small programs run in a simulated world, killed at a chosen callback, and looked at afterwards."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bullpen.config import ResourceClass, Settings, Timings
from bullpen.engines.memory import Failure, Rates
from bullpen.engines.memory.records import MemoryRecords
from bullpen.errors import BullpenError, Unavailable
from bullpen.model import provision as provision_states
from bullpen.model.instance import CLAIMED, CREATED, Instance
from bullpen.model.provision import OPEN, Provision
from bullpen.model.signal import Kind
from bullpen.model.transition import Change, Check
from bullpen.pool import lifecycle
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision
from bullpen.refresh import refresh
from bullpen.release import ReleaseOutcome, release
from bullpen.sim import invariants
from bullpen.sim.loop import virtual_run
from bullpen.sim.process import Process
from bullpen.sim.world import World

SETTINGS = Settings(
    timings=Timings(
        provision=30.0,
        claim_grace=10.0,
        validation=20.0,
        cleaning=10.0,
        orphan=15.0,  # a history rests five times as long: at the default a third of its work would be heartbeats there
        idle=3600.0,
        max_runtime=7200.0,
    ),
    classes={"small": ResourceClass(cpu=1, mem=1024)},
)
Main = Callable[[World, Ports], Coroutine[Any, Any, object]]


def asks(run_id: str, count: int, settings: Settings = SETTINGS, **changed: Any) -> Request:
    partial, wait = changed.pop("allow_partial", False), changed.pop("wait", 0.0)
    needs = settings.requirements(changed.pop("resource_class", "small"), **changed)
    return Request(run_id, count, needs, settings.timings.max_runtime, allow_partial=partial, wait=wait)


async def provisions(world: World, ports: Ports, run_id: str, count: int, **changed: Any) -> Outcome:
    request = asks(run_id, count, world.settings, **changed)
    return await provision(ports, world.settings, request, stop=asyncio.Event())


async def releases(world: World, ports: Ports, run_id: str) -> ReleaseOutcome:
    return await release(ports, world.settings, run_id, stop=asyncio.Event())


def provisioning(run_id: str, count: int, **changed: Any) -> Main:
    return lambda world, ports: provisions(world, ports, run_id, count, **changed)


def releasing(run_id: str) -> Main:
    return lambda world, ports: releases(world, ports, run_id)


async def refreshing(world: World, ports: Ports) -> object:
    return await refresh(ports, world.settings)


async def fills_pool(world: World, count: int, run_id: str = "before") -> None:
    """An earlier run leaves `count` clean instances on offer."""
    ports = world.ports(rates=Rates())
    assert (await provisions(world, ports, run_id, count)).succeeded
    await releases(world, ports, run_id)


@dataclass
class Actor:
    """A process that does something from `begins_at` on, and may die at its n-th callback."""

    name: str
    main: Main
    die_at: int | None = None
    begins_at: float = 0.0
    skew: float = 0.0
    process: Process = field(init=False)
    result: object = None
    failure: BullpenError | None = None

    async def play(self, world: World) -> None:
        await asyncio.sleep(self.begins_at)

        async def act(ports: Ports) -> None:
            try:
                self.result = await self.main(world, ports)
            except BullpenError as failure:
                self.failure = failure

        self.process, _ = world.start(self.name, act, skew=self.skew)
        self.process.die_at = self.die_at
        await self.process.ended()


@dataclass
class Witness:
    """Watches a world for what the records at rest no longer show."""

    world: World
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tables, yard = self.world.memory.tables, self.world.memory.yard
        write, launch = tables._write, yard.launch

        def watched_write(change: Any, record: Any) -> None:
            before = tables.instances.get(record.id)
            if isinstance(record, Instance) and before is not record:
                self._wrote(change.step, before, record)
            write(change, record)

        def watched_launch(plan: Any, count: int, clock: Any) -> Any:
            self._launched(plan)
            return launch(plan, count, clock)

        tables._write = watched_write  # type: ignore[method-assign]
        yard.launch = watched_launch  # type: ignore[method-assign]

    def _wrote(self, step: str, before: Instance | None, after: Instance) -> None:
        if step == "register" and self.world.memory.tables.provisions[after.provision_id].state is not OPEN:
            self.broken.append(f"{after.id} was registered for a provision that is decided")
        if step == "claim":
            self._claimed(before, after)
        if step in ("expire", "roll_back") and before is not None and before.state is CLAIMED:
            self._given_up(before)
        if step == "offer":
            signal = self.world.memory.reports.signals.get(after.id)
            if signal is None or not signal.proves(Kind.CLEAN_OK, after.round):
                self.broken.append(f"{after.id} was offered before it attested")

    def _given_up(self, claimed: Instance) -> None:
        """A claim may be given up by its provision; its time is never over before that of its provision."""
        now, owner = self.world.clock.now(), self.world.memory.tables.provisions.get(claimed.provision_id)
        if owner is not None and claimed.threshold <= now < owner.deadline and owner.state is OPEN:
            self.broken.append(f"the claim of {claimed.id} expired under {owner.id}, which is open")

    def _claimed(self, before: Instance | None, after: Instance) -> None:
        """Each claim takes an instance on offer, of no other trust domain and of the current image."""
        if before is None or not before.is_claimable:
            self.broken.append(f"{after.id} was claimed by {after.run_id} without an offer")
        elif before.trust_domain not in ("", after.trust_domain):
            self.broken.append(f"{after.id} went from trust domain {before.trust_domain} to {after.trust_domain}")
        elif before.image_generation < self.world.settings.classes[before.resource_class].image_generation:
            self.broken.append(f"{after.id} was claimed though its image is outdated")
        elif before.threshold <= self.world.clock.now():
            self.broken.append(f"{after.id} was claimed past its threshold")

    def _launched(self, plan: Any) -> None:
        """No fitting instance that has been claimable for 5 s is passed over for a cold start."""
        if not plan.run_id:
            return
        now = self.world.clock.now()
        acceptable = self.world.memory.tables.provisions[plan.provision_id].needs.acceptable_usage_classes
        for one in self.world.memory.tables.instances.values():
            on_offer = one.is_claimable and one.threshold > now and one.usage_class in acceptable
            fits = one.resource_class == plan.resource_class
            if on_offer and fits and one.offered_at and one.offered_at + timedelta(seconds=5) <= now:
                self.broken.append(f"{plan.run_id} launched a machine although {one.id} was on offer")


class Loses:
    """Loses the answer, or the request, of one step's write of one process, the first time."""

    def __init__(self, step: str, failure: Failure) -> None:
        self.step = step
        self.failure = failure

    def between(self, ports: Ports) -> None:
        records = ports.records
        assert isinstance(records, MemoryRecords)
        tables, loses = records._tables, self

        class Way:
            """The tables, as this process reaches them."""

            has_failed = False

            def __getattr__(self, name: str) -> object:
                return getattr(tables, name)

            def land(self, changes: list[Change[object]], checks: Sequence[Check] = ()) -> object:  # type: ignore[type-var]
                if self.has_failed or all(change.step != loses.step for change in changes):
                    return tables.land(changes, checks)
                self.has_failed = True
                if loses.failure is Failure.LOST_ANSWER:
                    tables.land(changes, checks)
                raise Unavailable(f"{loses.step}: {loses.failure}")

        records._tables = Way()  # type: ignore[assignment]


def loses_members(world: World, run_id: str, *, ended: int = 1, times: int = 1, capacity: int | None = None) -> None:
    """As commits of this run land, so many times, so many of their members end before their own writes; and from then
    on there is only so much capacity."""
    tables, left = world.memory.tables, [times]
    write = tables._write

    def thieving(change: Any, record: Any) -> None:
        write(change, record)
        if isinstance(record, Provision) and change.step == "commit" and record.run_id == run_id and left[0]:
            left[0] -= 1
            for id in record.members[:ended]:
                tables.land([lifecycle.end(tables.instances[id], world.clock.now(), "a sweeper", "its worker is lost")])
            if capacity is not None:
                world.memory.yard.capacity = capacity

    tables._write = thieving  # type: ignore[method-assign]


def losing(loses: Loses, main: Main) -> Main:
    async def act(world: World, ports: Ports) -> object:
        loses.between(ports)
        return await main(world, ports)

    return act


async def comes_to_rest(world: World, skew: float = 0.0) -> None:
    """Deadlines pass, on the slowest clock too, and refresh looks five times: each look may need two more."""
    ports = world.ports(rates=Rates())
    timings = world.settings.timings
    await asyncio.sleep(timings.provision + timings.claim_grace + timings.cleaning + skew)
    for _ in range(5):
        await refresh(ports, world.settings)
        await asyncio.sleep(world.settings.timings.orphan + 1)


def double_claims(actors: list[Actor]) -> list[str]:
    """No two runs whose answers say success share an instance."""
    owners: dict[str, str] = {}
    given = [
        (m.instance.id, a.result.run_id) for a in actors if isinstance(a.result, Outcome) for m in a.result.members
    ]
    return [f"{id} was given to {owners[id]} and to {run}" for id, run in given if owners.setdefault(id, run) != run]


def answers(actors: list[Actor], world: World) -> list[str]:
    """An answer agrees with the record, and a failure has given everything back: before its commit or after it."""
    broken = []
    for actor in actors:
        if not isinstance(actor.result, Outcome) or not actor.result.provision_id:
            continue
        record = world.memory.tables.provisions[actor.result.provision_id]
        committed, aborted = (record.state is one for one in (provision_states.COMMITTED, provision_states.ABORTED))
        given_back = committed and (record.is_over or record.is_closed)
        if not (committed and not record.is_revoked if actor.result.succeeded else aborted or given_back):
            broken.append(
                f"{actor.name} was told {actor.result.reason or 'success'!r}, but {record.id} is {record.state}"
            )
        held = [one for one in world.memory.tables.instances.values() if one.provision_id == record.id]
        unsettled = [f"{one.id} is {one.state}" for one in held if one.state in (CLAIMED, CREATED)]
        broken += [f"{actor.name} has its answer, but {why} for it" for why in unsettled]
    return broken


def history(
    actors: list[Actor],
    want: dict[str, int],
    *,
    pool: int = 0,
    seed: int = 0,
    world: Callable[[], World] | None = None,
    before: Callable[[World], Coroutine[Any, Any, None]] | None = None,
) -> list[str]:
    """Play one history and return what is wrong with the world afterwards."""

    async def main() -> list[str]:
        stage = world() if world else World(settings=SETTINGS, seed=seed)
        witness = Witness(stage)
        if pool:
            await fills_pool(stage, pool)
            await asyncio.sleep(6.0)  # on offer long enough that no provision may pass them over
        if before:
            await before(stage)
        await asyncio.gather(*(actor.play(stage) for actor in actors))
        broken = invariants.always(stage.memory) + double_claims(actors) + answers(actors, stage)
        await comes_to_rest(stage, max(actor.skew for actor in actors))
        return broken + witness.broken + invariants.at_rest(stage.memory, want)

    return virtual_run(main(), seed=seed, allow_left_behind=True)


def killed_everywhere(play: Callable[[int], tuple[Actor, list[str]]], stride: int = 1, first: int = 1) -> int:
    """Play histories with the death `stride` callbacks later each time, until the victim survives; the last step."""
    for step in range(first, 100_000, stride):
        victim, broken = play(step)
        assert not broken, f"killed at callback {step}: {broken}"
        if not victim.process.dead:
            return step
    raise AssertionError("it never ends")
