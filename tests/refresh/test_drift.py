"""An idle machine whose runner GitHub will refuse is replaced in time, unless new ones have the same runner."""

import asyncio
from datetime import UTC, datetime

import pytest

from bullpen.model.instance import RUNNING, TERMINATED
from bullpen.model.signal import Kind, Pulse, Signal
from bullpen.pool.runner_versions import version_of
from bullpen.refresh import Action
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, ids, machines, on_github, provisioned, refreshed, released, requests, small

OLD, NEW = "2.319.0", "2.336.0"
REFUSED = datetime(2030, 1, 4, tzinfo=UTC)


def of_drift(actions: list[Action]) -> list[Action]:
    return [action for action in actions if "refuses its runner" in action.reason]


async def an_old_machine(world: World, age: float = 3700.0) -> str:
    """On offer, with a runner that is refused on the fourth."""
    world.settings = on_github()
    (one,) = ids(await provisioned(world, "4711", 1))
    world.memory.refused[OLD] = REFUSED
    await asyncio.sleep(min(age, 1700))
    while age > 1700:
        age -= 1700
        await released(world, "4711")
        await provisioned(world, "4711", 1)
        await asyncio.sleep(min(age, 1700))
    await released(world, "4711")
    return one


async def test_an_idle_machine_with_an_outdated_runner_is_ended_with_the_date() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(version=OLD)) as world:
        one = await an_old_machine(world)
        (action,) = of_drift(await refreshed(world))
        assert (action.what, action.subject) == ("terminate", one)
        assert action.reason == "GitHub refuses its runner 2.319.0 from 2030-01-04 on"
        assert machines(world) == []
        assert world.memory.tables.instances[one].state is TERMINATED


async def test_an_idle_machine_whose_runner_is_accepted_stays() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(version=NEW)) as world:
        one = await an_old_machine(world)
        assert of_drift(await refreshed(world)) == []
        assert machines(world) == [one]


async def test_a_machine_that_serves_a_run_stays_until_it_is_idle() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(version=OLD)) as world:
        one = await an_old_machine(world)
        await provisioned(world, "4712", 1)
        assert of_drift(await refreshed(world)) == []
        assert world.memory.tables.instances[one].state is RUNNING
        await released(world, "4712")
        assert [action.subject for action in of_drift(await refreshed(world))] == [one]


async def test_a_young_machine_shows_that_new_ones_are_no_better_and_is_spared_with_an_alarm() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(version=OLD)) as world:
        one = await an_old_machine(world, age=100.0)
        (action,) = of_drift(await refreshed(world))
        assert (action.what, action.subject) == ("outdated", one)
        assert "put a newer one into the image or github.runner-directory" in action.reason
        assert machines(world) == [one]


async def test_a_dry_run_ends_none_of_them() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(version=OLD)) as world:
        one = await an_old_machine(world)
        assert len(of_drift(await refreshed(world, dry_run=True))) == 1
        assert machines(world) == [one]


async def test_with_the_embedded_ci_no_version_is_read() -> None:
    async with a_world(settings=small(), temper=lambda n: Temper(version=OLD)) as world:
        await provisioned(world, "run", 1)
        await released(world, "run")
        ports = world.ports()
        await refreshed(world, ports)
        assert requests(ports)["ci.refusals"] == 0


@pytest.mark.parametrize(
    ("kind", "text", "version"),
    [
        (Kind.CLEAN_OK, "runner=2.336.0", "2.336.0"),
        (Kind.OK, "script took 3 s; runner=2.336.0", ""),
        (Kind.CLEAN_OK, "", ""),
        (Kind.CLEAN_OK, "runner=newest", ""),
        (Kind.CLEAN_FAILED, "runner=2.336.0 could not be removed", ""),
    ],
)
def test_the_version_is_read_from_a_signal_that_is_not_a_failure(kind: Kind, text: str, version: str) -> None:
    assert version_of(Pulse(Signal("i-1", kind, "", "r", 1, text))) == version
    assert version_of(Pulse()) == ""
