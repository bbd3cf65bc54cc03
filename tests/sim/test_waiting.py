"""Provisions that wait for room, killed at every callback: nothing is lost, no cap is passed, and the next moves up."""

import asyncio
from typing import Any

import pytest

from bullpen.config import Limits, ResourceClass, Settings
from bullpen.engines.memory import Rates
from bullpen.model.instance import LIVE, RUNNING
from bullpen.ports import Ports
from bullpen.provision import Outcome
from bullpen.sim.world import World
from histories import SETTINGS, Actor, Main, history, killed_everywhere, provisioning, provisions, releases, releasing

pytestmark = pytest.mark.slow

CAP = 2
SERVED = "served"
FULL = Settings(
    timings=SETTINGS.timings,
    limits=Limits(max_instances=CAP),
    classes={name: ResourceClass(cpu=1, mem=1024) for name in ("small", "large")},
)


class Watched(World):
    """A world that notes how many instances there were at most. One whose end is written no longer counts, though its
    killer may have died before its machine did."""

    __slots__ = ("most",)

    def __post_init__(self) -> None:
        super(Watched, self).__post_init__()  # noqa: UP008
        self.most = 0
        launch = self.memory.yard.launch

        def counted(plan: Any, count: int, clock: Any) -> Any:
            answer = launch(plan, count, clock)
            live = sum(one.state in LIVE for one in self.memory.tables.instances.values())
            self.most = max(self.most, live + len(answer.machines))
            return answer

        self.memory.yard.launch = counted  # type: ignore[method-assign]


def busy_with(resource_class: str) -> Any:
    async def before(world: World) -> None:
        assert (
            await provisions(world, world.ports(rates=Rates()), "busy", CAP, resource_class=resource_class)
        ).succeeded

    return before


def in_and_out(run_id: str, count: int) -> Main:
    """A run that waits for its runners, uses them for a while, and gives them back."""

    async def main(world: World, ports: Ports) -> str | Outcome:
        outcome = await provisions(world, ports, run_id, count, wait=100.0)
        if not outcome.succeeded:
            return outcome
        await asyncio.sleep(1)
        await releases(world, ports, run_id)
        return SERVED  # not the outcome: what it had belongs to others

    return main


def play_queue(
    step: int | None, resource_class: str, *, seed: int = 0, rates: Rates | None = None
) -> tuple[Actor, list[str]]:
    """The first in the queue dies at a callback; the second must be served, unless the first one's run has it all."""
    victim = Actor("victim", in_and_out("one", 2), die_at=step)
    second = Actor("second", in_and_out("two", 1), begins_at=0.3)
    releaser = Actor("releaser", releasing("busy"), begins_at=1.0)
    made: list[Watched] = []

    def world() -> World:
        made.append(Watched(FULL, seed, rates or Rates()))
        return made[0]

    want = {"one": 2, "two": 1, "busy": CAP}
    broken = history([victim, second, releaser], want, before=busy_with(resource_class), world=world, seed=seed)
    if made[0].most > CAP:
        broken.append(f"{made[0].most} instances at once")
    tables = made[0].memory.tables
    serving = {one.run_id for one in tables.instances.values() if one.state is RUNNING}
    ended_by_faults = second.failure is not None or (isinstance(second.result, Outcome) and second.result.unavailable)
    if second.result != SERVED and "one" not in serving and not (rates and ended_by_faults):
        broken.append(f"the second was not served: {second.result} {second.failure}")
    if waiting := [one.id for one in tables.provisions.values() if one.is_waiting]:
        broken.append(f"{waiting} are still in the queue")
    return victim, broken


@pytest.mark.parametrize("resource_class", ["small", "large"], ids=["the pool has what fits", "room is made"])
def test_a_waiting_provision_killed_at_any_callback_loses_nothing_and_the_next_is_served(resource_class: str) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        return play_queue(step, resource_class)

    assert killed_everywhere(play, stride=3) > 100


def test_a_queue_works_whatever_the_store_and_the_network_do() -> None:
    for seed in range(1, 13):
        rates = Rates(latency=(0.0, 0.2)) if seed % 2 else Rates(lost_answer=0.01, lost_request=0.01)
        _, broken = play_queue(None if seed % 3 else 40 * seed, ("small", "large")[seed % 2], seed=seed, rates=rates)
        assert not broken, f"seed {seed}: {broken}"


def test_many_that_come_at_once_are_all_served_and_pass_no_cap() -> None:
    for seed in range(1, 6):
        actors = [Actor(f"run-{n}", in_and_out(f"run-{n}", 1 + n % 2), begins_at=0.05 * (n % 3)) for n in range(6)]
        made: list[Watched] = []

        def world(seed: int = seed, made: list[Watched] = made) -> World:
            made.append(Watched(FULL, seed, Rates(latency=(0.0, 0.05))))
            return made[0]

        assert not (broken := history(actors, {}, world=world, seed=seed)), f"seed {seed}: {broken}"
        assert made[0].most <= CAP
        assert [one.result for one in actors] == [SERVED] * 6
        assert not [one for one in made[0].memory.tables.instances.values() if one.state in LIVE and one.run_id]


def test_a_release_of_the_waiting_run_races_with_its_turn() -> None:
    for seed in range(1, 25):
        waiter = Actor("waiter", provisioning("run", 2, wait=60.0))
        actors = [
            waiter,
            Actor("releaser", releasing("busy"), begins_at=1.0),
            Actor("owner", releasing("run"), begins_at=1.0 + 0.15 * seed),
        ]
        broken = history(actors, {"run": 0, "busy": CAP}, before=busy_with("small"), world=lambda: World(FULL))
        assert not broken, f"seed {seed}: {broken}"
