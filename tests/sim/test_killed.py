"""Provision, release and refresh killed at every callback: nothing is lost, nothing is left, all or nothing."""

from collections.abc import Callable

import pytest
from histories import Actor, Main, history, provisions, refreshes, releases

from bullpen.ports import Ports
from bullpen.sim.world import World


async def asks_for_three(world: World, ports: Ports) -> object:
    return await provisions(world, ports, "run", 3)


async def asks_and_releases(world: World, ports: Ports) -> object:
    await provisions(world, ports, "run", 2)
    return await releases(world, ports, "run")


async def refreshes_only(world: World, ports: Ports) -> object:
    return await refreshes(world, ports)


def killed_everywhere(play: Callable[[int], tuple[Actor, list[str]]]) -> int:
    """Play histories with the death one callback later each time, until the victim survives; return how many."""
    for step in range(1, 100_000):
        victim, broken = play(step)
        assert not broken, f"killed at callback {step}: {broken}"
        if not victim.process.dead:
            return step
    raise AssertionError("it never ends")


@pytest.mark.parametrize("pool", [0, 2, 3])
@pytest.mark.parametrize("main", [asks_for_three, asks_and_releases])
def test_killed_at_every_callback_nothing_is_lost(main: Main, pool: int) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", main, die_at=step)
        return victim, history([victim], {"run": 3 if main is asks_for_three else 2}, pool=pool)

    assert killed_everywhere(play) > 50
