"""GitHub refuses a version of its runner: machines that have it are retired, and no others are launched in vain."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from bullpen.model.instance import IDLE, TERMINATED
from bullpen.model.signal import Kind, Signal
from bullpen.model.signal_text import refuses_runner
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import machines, records, with_pool
from scale_sets.fixtures import a_set_world, hub_of, members, push, serve, session, settings_of, until_done

pytestmark = pytest.mark.slow

OLD, NEW = "2.319.0", "2.336.0"
REFUSED = refuses_runner(OLD, f"GitHub refuses runner version {OLD}: use a newer one")
HOUR = 3600.0


def old(version: str = OLD) -> Temper:
    return Temper(version=version, registration_failure=REFUSED if version == OLD else "")


async def test_idle_machines_of_a_refused_version_are_retired_and_new_ones_serve_the_set() -> None:
    """Also those that the set itself could not claim."""
    async with a_set_world(temper=lambda n: Temper(version=OLD if n < 3 else NEW)) as world:
        before = [
            *await with_pool(world, 2, trust_domain="acme/widgets"),
            *await with_pool(world, 1, trust_domain="acme/gadgets"),
        ]
        for id in before:
            refuse(world, id)
        serve(world)
        run = push(world, lasts=30.0)
        await until_done(world, run)
        assert [world.memory.tables.instances[id].state for id in before] == [TERMINATED] * 3
        assert not set(before) & set(machines(world))


async def test_where_new_machines_have_the_version_too_no_more_are_launched_and_status_can_say_why() -> None:
    async with a_set_world(temper=lambda n: old()) as world:
        serve(world)
        run = push(world, lasts=30.0)
        await asyncio.sleep(600)
        launched = len(world.memory.yard.sightings)
        assert launched <= 3
        assert session(world).missing == 0
        (waiting,) = session(world).waiting
        assert f"GitHub refuses runner {OLD}" in waiting.why
        assert "github.runner-directory" in waiting.why
        await asyncio.sleep(1200)
        assert len(world.memory.yard.sightings) == launched
        assert not hub_of(world).runs[run].completed


@pytest.mark.parametrize("idle_target", [0, 1])
async def test_a_set_tries_again_after_an_hour(idle_target: int) -> None:
    """Also if the pool keeps a machine of the refused version on offer meanwhile."""
    image = [OLD]
    async with a_set_world(settings_of(idle_target=idle_target), temper=lambda n: old(image[0])) as world:
        serve(world)
        first = push(world, lasts=30.0)
        await asyncio.sleep(600)
        launched = len(world.memory.yard.sightings)
        await asyncio.sleep(HOUR - 720)
        assert len(world.memory.yard.sightings) == launched
        image[0] = NEW
        await asyncio.sleep(300)
        await until_done(world, first, push(world, lasts=30.0), within=300.0)


async def test_a_member_whose_last_word_is_that_its_version_is_refused_is_ended_with_that_reason() -> None:
    async with a_set_world(settings_of(min=1), temper=lambda n: old(NEW)) as world:
        serve(world)
        await asyncio.sleep(60)
        (one,) = members(world)
        world.agents[one.id].kill()
        await world.ports().signals.report(Signal(one.id, Kind.REG_FAILED, one.run_id, one.round, 99, REFUSED))
        await asyncio.sleep(10)
        assert world.memory.tables.instances[one.id].state is TERMINATED
        reasons = [line.why for line in world.memory.tables.stories[one.id]]
        assert f"GitHub refuses its runner {OLD}" in reasons


@pytest.mark.parametrize("failure", ["the disk is full", "refused-runner=latest"])
async def test_other_failures_retire_nothing(failure: str) -> None:
    temper = lambda n: Temper(version=OLD, registration_failure=failure if n == 0 else "")  # noqa: E731
    async with a_set_world(settings_of(idle_target=3), temper=temper) as world:
        serve(world)
        await asyncio.sleep(120)
        assert len(records(world, IDLE)) == 3
        assert [one.id for one in records(world, TERMINATED)] == machines_ended(world)
        assert len(machines_ended(world)) <= 1


def machines_ended(world: World) -> list[str]:
    return [id for id, seen in world.memory.yard.sightings.items() if not seen.alive]


def refuse(world: World, id: str) -> None:
    """GitHub refuses its runner from now on, and the machine is older than an hour."""
    world.tempers[id].registration_failure = REFUSED
    seen = world.memory.yard.sightings[id]
    world.memory.yard.sightings[id] = replace(seen, launched_at=seen.launched_at - timedelta(hours=2))
