"""Two processes race for one pool, and either or both are killed: no double claim, no needless launch."""

from collections.abc import Callable

import pytest

from bullpen.config import ResourceClass, Settings
from bullpen.engines.memory import Rates
from bullpen.sim.world import World
from histories import SETTINGS, Actor, Main, history, provisioning, provisions, refreshing, releasing

pytestmark = pytest.mark.slow

WARM = Settings(timings=SETTINGS.timings, classes={"small": ResourceClass(cpu=1, mem=1024, idle_target=3)})


async def serves(world: World) -> None:
    assert (await provisions(world, world.ports(), "run", 2)).succeeded


def a_world(seed: int) -> Callable[[], World]:
    """Every third one has slow ways to the services, every other one an idle target."""
    rates = Rates(latency=(0.0, 0.1)) if seed % 3 == 0 else Rates()
    return lambda: World(WARM if seed % 2 else SETTINGS, seed, rates)


PAIRS: dict[str, tuple[Main, Main, dict[str, int]]] = {
    "two provisions": (provisioning("one", 2), provisioning("two", 2), {"one": 2, "two": 2}),
    "two provisions of one run": (provisioning("run", 2), provisioning("run", 2), {}),
    "a provision and the release of its run": (provisioning("run", 2), releasing("run"), {"run": 2}),
    "a provision and a refresh": (provisioning("run", 2), refreshing, {"run": 2}),
    "a provision and the release of another run": (provisioning("one", 3), releasing("run"), {"one": 3, "run": 2}),
    "two refreshes": (refreshing, refreshing, {"run": 2}),
    "two releases": (releasing("run"), releasing("run"), {"run": 2}),
    "a release and a refresh": (releasing("run"), refreshing, {"run": 2}),
}
BEGUN = ("a provision and the release of another run", "two releases", "a release and a refresh", "two refreshes")


def race(pair: str, seed: int, *, deaths: tuple[int | None, int | None] = (None, None), pool: int = 3) -> list[str]:
    first, second, want = PAIRS[pair]
    begins_at = seed % 5 * 0.1  # from the very same moment to when the first one is almost done
    actors = [Actor("first", first, die_at=deaths[0]), Actor("second", second, die_at=deaths[1], begins_at=begins_at)]
    return history(actors, want, pool=pool, seed=seed, world=a_world(seed), before=serves if pair in BEGUN else None)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_race_in_any_order_breaks_nothing(pair: str) -> None:
    for seed in range(1, 25):
        assert not (broken := race(pair, seed)), f"seed {seed}: {broken}"


@pytest.mark.parametrize("pair", PAIRS)
def test_a_race_in_which_one_is_killed_breaks_nothing(pair: str) -> None:
    for seed in range(1, 14):
        step = 1 + seed * 7919 % 150
        for deaths in ((step, None), (None, step)):
            assert not (broken := race(pair, seed, deaths=deaths)), f"seed {seed}, killed at {deaths}: {broken}"


@pytest.mark.parametrize("pair", PAIRS)
def test_a_race_in_which_both_are_killed_breaks_nothing(pair: str) -> None:
    for seed in range(1, 20):
        deaths = (1 + seed * 7919 % 150, 1 + seed * 104729 % 150)
        assert not (broken := race(pair, seed, deaths=deaths)), f"seed {seed}, killed at {deaths}: {broken}"
