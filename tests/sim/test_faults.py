"""Lost requests and answers, lagging indexes, short fleets, wrong clocks: nothing is lost and nothing is left."""

import asyncio
from random import Random

import pytest

from bullpen.config import Settings, Timings
from bullpen.engines.memory import Failure, Rates
from bullpen.errors import BullpenError
from bullpen.ports import Ports
from bullpen.provision import Outcome
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from histories import (
    SETTINGS,
    Actor,
    Loses,
    Main,
    history,
    losing,
    provisioning,
    provisions,
    refreshing,
    releases,
    releasing,
)

pytestmark = pytest.mark.slow

KINDS = {
    "lost requests": Rates(lost_request=0.05),
    "lost answers": Rates(lost_answer=0.05),
    "throttling": Rates(throttled=0.05),
    "a bad queue": Rates(false_empty=0.3, duplicate=0.3, lost_ticket=0.3, disorder=0.5),
    "short fleets": Rates(short_fleet=0.5, refused_fleet=0.1),
    "slow ends": Rates(slow_end=0.5, short_fleet=0.3),
    "deaf waits": Rates(deaf=0.7, latency=(0.0, 0.3)),
    "everything": Rates(
        latency=(0.0, 0.2),
        lost_request=0.02,
        lost_answer=0.02,
        throttled=0.02,
        false_empty=0.1,
        duplicate=0.1,
        lost_ticket=0.1,
        disorder=0.3,
        short_fleet=0.2,
        refused_fleet=0.1,
        slow_end=0.2,
        deaf=0.2,
    ),
}

PATIENT = Settings(
    timings=Timings(provision=900.0, cleaning=700.0, idle=3600.0, max_runtime=7200.0), classes=SETTINGS.classes
)
"""Every threshold is further away than two clocks differ: an agent ends itself by its own clock."""


def three_runs(random: Random) -> list[Actor]:
    """Three runs that provision, and mostly release, about the same time, and a process that refreshes."""
    actors = [
        Actor(f"run-{n}", serves_and_releases(f"run-{n}", random.randint(1, 3)), begins_at=random.uniform(0, 3))
        for n in range(3)
    ]
    return [*actors, Actor("refresher", refreshing, begins_at=random.uniform(0, 6))]


def serves_and_releases(run_id: str, count: int) -> Main:
    async def main(world: World, ports: Ports) -> object:
        await provisions(world, ports, run_id, count)
        await asyncio.sleep(2.0)
        return await releases(world, ports, run_id)

    return main


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_goes_wrong_on_the_way_nothing_is_lost_or_left(kind: str) -> None:
    for seed in range(1, 25):
        random = Random(seed)
        world = World(SETTINGS, seed, KINDS[kind], index_lag=random.choice([0.0, 0.5, 4.0]))
        actors = three_runs(random)
        for actor in actors:
            actor.die_at = random.choice([None, random.randint(1, 200)])
        broken = history(actors, {}, pool=2, seed=seed, world=lambda world=world: world)  # type: ignore[misc]
        assert not broken, f"{kind}, seed {seed}: {broken}"


def test_an_index_that_lags_loses_nothing() -> None:
    for seed in range(1, 25):
        random = Random(seed)
        actors = three_runs(random)
        world = World(SETTINGS, seed, index_lag=random.uniform(0.1, 5.0))
        broken = history(actors, {}, pool=2, seed=seed, world=lambda world=world: world)  # type: ignore[misc]
        assert not broken, f"seed {seed}: {broken}"


def test_clocks_that_are_wrong_by_minutes_condemn_no_serving_instance() -> None:
    for seed in range(1, 10):
        random = Random(seed)
        skews = [random.uniform(-300.0, 300.0) for _ in range(100)]
        world = World(PATIENT, seed, temper=lambda n, skews=skews: Temper(skew=skews[n]))  # type: ignore[misc]
        actors = three_runs(random)
        for actor in actors:
            actor.skew = random.uniform(-300.0, 300.0)
        broken = history(actors, {}, pool=2, seed=seed, world=lambda world=world: world)  # type: ignore[misc]
        assert not broken, f"seed {seed}: {broken}"
        ended = [line for story in world.memory.tables.stories.values() for line in story if line.step == "expire"]
        assert not ended, f"seed {seed}: {ended}"


async def serves_three(world: World) -> None:
    assert (await provisions(world, world.ports(), "run", 3)).succeeded


@pytest.mark.parametrize("failure", [Failure.LOST_ANSWER, Failure.LOST_REQUEST])
@pytest.mark.parametrize(
    "step",
    [
        "open_",
        "claim",
        "plan_fleet",
        "register",
        "answer_fleet",
        "commit",
        "settle_committed",
        "abort",
        "roll_back",
        "expire",
    ],
)
def test_one_lost_write_of_a_provision_leaves_all_or_nothing_and_an_answer(step: str, failure: Failure) -> None:
    for capacity in (3, 10):
        actor = Actor("run", losing(Loses(step, failure), provisioning("run", 4)))
        world = World(SETTINGS, capacity=capacity)
        broken = history([actor], {"run": 4}, pool=3, world=lambda world=world: world)  # type: ignore[misc]
        assert not broken, f"capacity {capacity}: {broken}"
        if step in ("claim", "plan_fleet", "answer_fleet", "commit") and capacity == 10:
            assert isinstance(actor.result, Outcome), f"{actor.failure!r}"


@pytest.mark.parametrize("failure", [Failure.LOST_ANSWER, Failure.LOST_REQUEST])
@pytest.mark.parametrize("step", ["release", "offer", "settle_committed"])
def test_one_lost_write_of_a_release_loses_nothing(step: str, failure: Failure) -> None:
    actor = Actor("release", losing(Loses(step, failure), releasing("run")))
    assert history([actor], {"run": 3}, before=serves_three) == []


def test_a_commit_whose_answer_was_lost_is_a_success() -> None:
    actor = Actor("run", losing(Loses("commit", Failure.LOST_ANSWER), provisioning("run", 2)))
    assert history([actor], {"run": 2}, pool=2) == []
    assert isinstance(actor.result, Outcome)
    assert actor.result.succeeded
    assert len(actor.result.members) == 2


def test_an_unavailable_engine_raises_only_errors_of_bullpen() -> None:
    world = World(SETTINGS, rates=Rates(lost_request=1.0))
    actor = Actor("run", provisioning("run", 2))
    assert history([actor], {"run": 2}, world=lambda: world) == []
    assert isinstance(actor.failure, BullpenError)
