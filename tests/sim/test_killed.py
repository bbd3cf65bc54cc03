"""Provision, release and refresh killed at every callback: nothing is lost, nothing is left, all or nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bullpen.config import ResourceClass, Settings
from bullpen.model.ticket import UsageClass
from bullpen.provision import Outcome
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from histories import (
    SETTINGS,
    Actor,
    fills_pool,
    history,
    killed_everywhere,
    provisioning,
    provisions,
    refreshing,
    releasing,
)

pytestmark = pytest.mark.slow

FALLS_BACK = Settings(timings=SETTINGS.timings, classes={"small": ResourceClass(cpu=1, mem=1024, spot_fallback=True)})
WARM = Settings(timings=SETTINGS.timings, classes={"small": ResourceClass(cpu=1, mem=1024, idle_target=2)})
Stage = Callable[[World], Coroutine[Any, Any, None]]


async def serves_three(world: World) -> None:
    assert (await provisions(world, world.ports(), "run", 3)).succeeded


async def one_is_mute(world: World) -> None:
    world.agents[min(world.agents)].pause()


async def tickets_are_lost(world: World) -> None:
    world.memory.queues.clear()


async def one_fell_silent_long_ago(world: World) -> None:
    await one_is_mute(world)
    await asyncio.sleep(70.0)  # its lease is out


async def one_of_the_run_is_mute(world: World) -> None:
    await serves_three(world)
    await one_is_mute(world)


async def releaser_died(world: World) -> None:
    """Three instances have attested, and no process has put them on offer."""
    await serves_three(world)
    victim = Actor("releaser", releasing("run"), die_at=50)
    await victim.play(world)
    assert victim.process.dead


async def leaves_a_mess(world: World) -> None:
    """Claims of the dead, debts, a machine without a record, a pool without tickets, a mute one; all of it overdue."""
    await fills_pool(world, 3)
    for name, step in (("early", 30), ("late", 60), ("later", 90)):
        await Actor(name, provisioning(name, 2), die_at=step).play(world)
    await serves_three(world)
    await Actor("releaser", releasing("run"), die_at=30).play(world)
    world.memory.queues.clear()
    await one_is_mute(world)
    await asyncio.sleep(42.0)  # past every threshold; the agents stop themselves a minute after theirs


@pytest.mark.parametrize("pool", [0, 2, 3])
def test_a_provision_killed_at_any_callback_loses_nothing(pool: int) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", provisioning("run", 3), die_at=step)
        return victim, history([victim], {"run": 3}, pool=pool)

    assert killed_everywhere(play) > 50


@pytest.mark.parametrize("stage", [one_is_mute, one_fell_silent_long_ago, tickets_are_lost, releaser_died])
def test_a_provision_killed_over_a_damaged_pool_loses_nothing(stage: Stage) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", provisioning("next", 3), die_at=step)
        pool = 0 if stage is releaser_died else 3
        return victim, history([victim], {"next": 3, "run": 3}, pool=pool, before=stage)

    assert killed_everywhere(play, stride=2) > 50


def test_a_provision_killed_while_it_hedges_loses_nothing() -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", provisioning("run", 2), die_at=step)
        return victim, history([victim], {"run": 2}, pool=4, before=one_is_mute, world=slow_runners)

    assert killed_everywhere(play, stride=4) > 100


def slow_runners() -> World:
    """They take longer than half of what a registration may take, so that every claim is hedged."""
    return World(settings=SETTINGS, temper=lambda n: Temper(registers_in=6.0))


@pytest.mark.parametrize("room", [0, 1])
def test_a_provision_killed_while_its_fleet_fails_gives_everything_back(room: int) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", provisioning("run", 4), die_at=step)
        broken = history([victim], {"run": 4}, pool=2, world=lambda: World(settings=SETTINGS, capacity=2 + room))
        return victim, broken

    assert killed_everywhere(play) > 50


def test_a_provision_killed_while_a_new_machine_fails_gives_everything_back() -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", provisioning("run", 3), die_at=step)
        world = World(settings=SETTINGS, temper=lambda n: Temper(boot_failure="no disk" if n == 2 else ""))
        return victim, history([victim], {"run": 3}, pool=2, world=lambda: world)

    assert killed_everywhere(play) > 50


@pytest.mark.parametrize("pool", [0, 1])
def test_a_provision_killed_while_it_falls_back_gets_exactly_as_many_when_it_is_repeated(pool: int) -> None:
    def little_spot() -> World:
        world = World(settings=FALLS_BACK)
        world.memory.yard.spot_capacity = 1
        return world

    def play(step: int) -> tuple[Actor, list[str]]:
        spot = provisioning("run", 3, usage_class=UsageClass.SPOT)
        victim, repeated = Actor("victim", spot, die_at=step), Actor("repeated", spot, begins_at=5.0)
        broken = history([victim, repeated], {"run": 3}, pool=pool, world=little_spot)
        met = isinstance(repeated.result, Outcome) and len(repeated.result.members) == 3
        return victim, broken if met else [*broken, f"the repetition was answered {repeated.result}"]

    assert killed_everywhere(play, stride=2) > 50


@pytest.mark.parametrize("stage", [serves_three, one_of_the_run_is_mute])
@pytest.mark.parametrize("pool", [0, 3])
def test_a_release_killed_at_any_callback_loses_nothing(pool: int, stage: Stage) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", releasing("run"), die_at=step)
        return victim, history([victim], {"run": 3}, pool=pool, before=stage)

    assert killed_everywhere(play) > 30


@pytest.mark.parametrize("settings", [SETTINGS, WARM], ids=["no target", "idle target"])
def test_a_refresh_killed_at_any_callback_over_a_mess_loses_nothing(settings: Settings) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", refreshing, die_at=step)
        want = {"early": 2, "late": 2, "later": 2, "run": 3}
        return victim, history([victim], want, before=leaves_a_mess, world=lambda: World(settings=settings))

    assert killed_everywhere(play, stride=1 if settings is SETTINGS else 3) > 50


def warm_world() -> World:
    return World(settings=WARM)


def test_a_refresh_killed_while_it_replaces_a_silent_idle_instance_loses_nothing() -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim, other = Actor("victim", refreshing, die_at=step), Actor("other", refreshing, begins_at=step % 7)
        return victim, history([victim, other], {}, pool=2, before=one_fell_silent_long_ago, world=warm_world)

    assert killed_everywhere(play, stride=3) > 50


def test_a_refresh_killed_while_it_warms_the_pool_loses_nothing() -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", refreshing, die_at=step)
        return victim, history([victim], {}, world=lambda: World(settings=WARM))

    assert killed_everywhere(play) > 20
