"""Orders of operators, killed at every callback and beside other processes: nothing is half done, no run loses a
runner, and a rotation leaves no gap."""

import asyncio
from random import Random
from typing import Any

import pytest

from bullpen.config import ResourceClass, Settings
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.pause import pause_key
from bullpen.operate import drain, pause, resume, rotate
from bullpen.ports import Ports
from bullpen.sim.world import World
from histories import SETTINGS, Actor, history, killed_everywhere, provisioning, provisions, refreshing, releasing

pytestmark = pytest.mark.slow

WARM = Settings(timings=SETTINGS.timings, classes={"small": ResourceClass(cpu=1, mem=1024, idle_target=2)})


async def drains_the_class(world: World, ports: Ports) -> object:
    return await drain(ports, world.settings, resource_class="small", operator="ada")


async def drains_all(world: World, ports: Ports) -> object:
    """Every instance by its id, as one read shows them."""
    some = [one.id for one in world.memory.tables.instances.values() if one.state is not TERMINATED]
    return await drain(ports, world.settings, some, operator="ada") if some else None


async def rotates(world: World, ports: Ports) -> object:
    return await rotate(ports, world.settings, "small", operator="ada")


async def pauses(world: World, ports: Ports) -> object:
    return await pause(ports, world.settings, "small", "broken", operator="ada")


class Watch:
    """What must never happen to an instance, and how many were on offer at least."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.least = 0  # on offer, from the first moment on at which so many were
        self.world: World | None = None

    async def begin(self, world: World) -> None:
        self.world = world
        tables = world.memory.tables
        write = tables._write

        def watched(change: Any, record: Any) -> None:
            before = tables.instances.get(record.id)
            write(change, record)
            if isinstance(record, Instance) and before is not None and before is not record:
                self._wrote(change, before, record)

        tables._write = watched  # type: ignore[method-assign]

    def _wrote(self, change: Any, before: Instance, after: Instance) -> None:
        assert self.world is not None
        if change.step == "expire" and before.state in (RUNNING, CLAIMED):
            self.broken.append(f"{after.id} was ended while it was {before.state}: {change.line.why}")
        if change.step == "expire" and before.run_id and change.line.why.startswith(("drained by", "rotated by")):
            self.broken.append(f"an order ended {after.id}, which was {before.state} for {before.run_id}")
        if change.step in ("claim", "offer", "adopt") and before.is_drained:
            self.broken.append(f"{change.step} of {after.id}, which is drained")
        on_offer = sum(one.is_claimable for one in self.world.memory.tables.instances.values())
        if change.step == "expire" and on_offer < self.least:
            self.broken.append(f"only {on_offer} on offer after {after.id} was ended")

    def left(self, *states: Any) -> list[Instance]:
        assert self.world is not None
        return [one for one in self.world.memory.tables.instances.values() if one.state in states]


def finished(watch: Watch) -> list[str]:
    """Once the class is paused to drain, no instance of it is left that a run could get."""
    assert watch.world is not None
    order = watch.world.memory.tables.pauses.get(pause_key("small"))
    if order is None or not order.drains:
        return []
    idle = [f"{one.id} is still {one.state}" for one in watch.left(IDLE)]
    return idle + [f"{one.id} runs and is not drained" for one in watch.left(RUNNING) if not one.is_drained]


def drained_beside(*others: Actor, step: int, pool: int, order: Any = drains_the_class) -> tuple[Actor, list[str]]:
    watch, victim = Watch(), Actor("operator", order, die_at=step, begins_at=0.02)
    broken = history([victim, *others], {"run": 3, "before": 0}, pool=pool, before=watch.begin)
    return victim, broken + watch.broken + finished(watch)


@pytest.mark.parametrize("pool", [0, 3])
def test_a_class_is_drained_beside_a_provision_which_gets_all_its_runners_or_none(pool: int) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        return drained_beside(Actor("provision", provisioning("run", 3)), step=step, pool=pool)

    assert killed_everywhere(play) > 5


@pytest.mark.parametrize("begins_at", [0.0, 0.01, 0.02, 0.021, 0.03, 0.1, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("pool", [0, 2, 3])
def test_a_drain_at_any_moment_of_a_provision_takes_no_runner_from_its_run(begins_at: float, pool: int) -> None:
    for order in (drains_the_class, drains_all):
        watch, operator = Watch(), Actor("operator", order, begins_at=begins_at)
        provision = Actor("provision", provisioning("run", 3))
        broken = history([provision, operator], {"run": 3}, pool=pool, before=watch.begin)
        assert broken + watch.broken + finished(watch) == []


def released_after(order: Any, die_at: int) -> tuple[Actor, list[str]]:
    """A run of three whose instances are drained is released, by a process that is killed."""
    watch, victim = Watch(), Actor("releaser", releasing("run"), die_at=die_at)

    async def before(world: World) -> None:
        assert (await provisions(world, world.ports(), "run", 3)).succeeded
        await order(world, world.ports())
        await watch.begin(world)

    broken = history([victim], {"run": 3}, before=before)
    is_over = bool(watch.left(TERMINATED))
    left = [f"{one.id} is {one.state}, though its run is over" for one in watch.left(IDLE)] if is_over else []
    return victim, broken + watch.broken + left


@pytest.mark.parametrize("order", [drains_all, drains_the_class, rotates])
def test_the_release_of_drained_instances_may_be_killed_at_any_callback(order: Any) -> None:
    assert killed_everywhere(lambda step: released_after(order, step), stride=2) > 20


def rotated(die_at: int, main: Any = refreshing) -> tuple[Actor, list[str]]:
    """A warm class is rotated while a process that keeps it is killed; others follow it."""
    watch, victim = Watch(), Actor("keeper", main, die_at=die_at)
    old: list[str] = []

    async def before(world: World) -> None:
        ports = world.ports()
        for _ in range(2):
            await refreshing(world, ports)
            await asyncio.sleep(8.0)
        old.extend(one.id for one in world.memory.tables.instances.values() if one.is_claimable)
        assert len(old) == 2
        await watch.begin(world)
        watch.least = 2
        if main is refreshing:
            await rotates(world, ports)

    broken = history([victim], {}, world=lambda: World(settings=WARM), before=before)
    assert watch.world is not None
    over = watch.world.memory.tables.rotations.get("rotation:small")
    if over is not None and not over.is_on:
        broken += [f"{one.id} was to be replaced" for one in watch.left(IDLE) if one.id in old]
    if over is not None and over.is_on:
        gone = [one.id for one in watch.left(TERMINATED)]
        broken += [] if gone else ["five refreshes have replaced none"]
    return victim, broken + watch.broken


@pytest.mark.parametrize("main", [refreshing, rotates])
def test_a_rotation_goes_on_without_a_gap_whichever_process_is_killed(main: Any) -> None:
    assert killed_everywhere(lambda step: rotated(step, main), stride=3) > 5


def test_a_pause_is_there_or_not_wherever_its_process_is_killed() -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        watch, victim = Watch(), Actor("operator", pauses, die_at=step)
        broken = history([victim, Actor("provision", provisioning("run", 3))], {"run": 3}, pool=3, before=watch.begin)
        return victim, broken + watch.broken

    assert killed_everywhere(play) >= 3


async def resumes(world: World, ports: Ports) -> object:
    return await resume(ports, world.settings, "small", operator="bob")


async def pauses_the_pool(world: World, ports: Ports) -> object:
    return await pause(ports, world.settings, "", "an incident", operator="bob")


async def resumes_the_pool(world: World, ports: Ports) -> object:
    return await resume(ports, world.settings, "", operator="eve")


ALL = (drains_the_class, drains_all, rotates, pauses, resumes, pauses_the_pool, resumes_the_pool)


@pytest.mark.parametrize("seed", range(40))
def test_any_orders_of_several_operators_beside_runs_and_deaths_break_no_promise(seed: int) -> None:
    random, watch = Random(seed), Watch()

    def dies(rate: float) -> int | None:
        return random.randint(1, 200) if random.random() < rate else None

    others = [
        Actor(f"operator-{n}", random.choice(ALL), die_at=dies(0.3), begins_at=random.uniform(0.0, 40.0))
        for n in range(6)
    ]
    others += [Actor(f"refresh-{n}", refreshing, die_at=dies(0.5), begins_at=n * 10.0) for n in range(4)]
    runs = {"one": 2, "two": 1, "three": 2}
    others += [
        Actor(run, provisioning(run, count), die_at=dies(0.3), begins_at=random.uniform(0.0, 30.0))
        for run, count in runs.items()
    ]
    others.append(Actor("release", releasing("one"), die_at=dies(0.5), begins_at=35.0))
    broken = history(
        others,
        {**runs, "one": 2},
        pool=random.choice([0, 3]),
        seed=seed,
        world=lambda: World(settings=WARM, seed=seed),
        before=watch.begin,
    )
    assert broken + watch.broken == []
