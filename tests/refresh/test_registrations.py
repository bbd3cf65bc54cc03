"""Runners that the CI lists and instances that serve runs agree, both ways; one observation is not enough."""

import asyncio

import msgspec
import pytest

from bullpen.errors import PermissionDenied, Unavailable
from bullpen.model.instance import RUNNING, TERMINATED
from bullpen.ports import Ports, Registration
from bullpen.refresh import Action, Hindered
from bullpen.sim.world import World
from fixtures import a_world, begin_job, ids, machines, mute, on_github, provisioned, refreshed, small

GHOST = "bullpen.i-gone.0123abcd"


def lists(world: World, handle: str, name: str, label: str = "4711", *, online: bool, busy: bool = False) -> None:
    world.memory.registrations[handle] = Registration(name, label, busy, runner=handle, online=online)


async def serving(world: World, *, online: bool) -> str:
    """An instance that serves run 4711 and lives; GitHub lists its runner."""
    (one,) = ids(await provisioned(world, "4711", 1))
    del world.memory.registrations[one]  # as the simulated agent had registered it
    lists(world, f"bullpen.{one}.0", one, online=online)
    return one


async def looks(world: World, times: int = 2, apart: float = 61.0) -> list[Action]:
    """What this many refreshes did, without queues and the unknown run."""
    found = []
    for n in range(times):
        await asyncio.sleep(apart if n else 0)
        found += [action for action in await refreshed(world) if action.what not in ("make queue", "alarm")]
    return found


async def test_a_ghost_is_removed_once_it_was_seen_twice() -> None:
    async with a_world(settings=on_github()) as world:
        lists(world, GHOST, "i-gone", online=False)
        assert await looks(world, 1) == []
        await asyncio.sleep(30)
        assert await looks(world, 1) == []
        await asyncio.sleep(31)
        (action,) = await looks(world, 1)
        assert (action.what, action.subject) == ("deregister", GHOST)
        assert world.memory.registrations == {}


async def test_a_ghost_that_the_ci_counts_as_busy_is_left_and_tried_again() -> None:
    async with a_world(settings=on_github()) as world:
        lists(world, GHOST, "i-gone", online=False, busy=True)
        assert [action.what for action in await looks(world, 3)] == ["deregister", "deregister"]
        assert list(world.memory.registrations) == [GHOST]
        lists(world, GHOST, "i-gone", online=False)
        await looks(world)
        assert world.memory.registrations == {}


async def test_a_connected_runner_without_an_instance_is_reported_and_left_alone() -> None:
    async with a_world(settings=on_github()) as world:
        lists(world, GHOST, "i-gone", online=True)
        assert [(action.what, action.subject) for action in await looks(world, 3)] == [("spare", GHOST)] * 2
        assert list(world.memory.registrations) == [GHOST]


async def test_what_an_earlier_claim_of_a_living_instance_left_behind_is_removed() -> None:
    async with a_world(settings=on_github()) as world:
        one = await serving(world, online=True)
        lists(world, f"bullpen.{one}.old", one, "4710", online=False)
        assert [action.subject for action in await looks(world)] == [f"bullpen.{one}.old"]
        assert list(world.memory.registrations) == [f"bullpen.{one}.0"]


@pytest.mark.parametrize("listed", [True, False], ids=["listed as offline", "not listed"])
async def test_an_instance_that_the_ci_does_not_see_is_ended(listed: bool) -> None:
    async with a_world(settings=on_github()) as world:
        one = await serving(world, online=False)
        if not listed:
            world.memory.registrations.clear()
        (action,) = await looks(world)
        assert (action.what, action.subject) == ("terminate", one)
        record = world.memory.tables.instances[one]
        assert record.state is TERMINATED
        assert "the CI sees no runner there" in world.memory.tables.stories[one][-2].why


async def test_one_observation_ends_no_instance_and_coming_back_clears_the_suspicion() -> None:
    async with a_world(settings=on_github()) as world:
        one = await serving(world, online=False)
        assert await looks(world, 1) == []
        lists(world, f"bullpen.{one}.0", one, online=True)
        assert await looks(world, 1) == []
        lists(world, f"bullpen.{one}.0", one, online=False)
        await asyncio.sleep(100)
        assert await looks(world, 1) == []
        assert world.memory.tables.instances[one].state is RUNNING


async def test_a_busy_instance_is_not_ended_because_the_ci_does_not_see_it() -> None:
    async with a_world(settings=on_github()) as world:
        one = await serving(world, online=False)
        begin_job(world, one)
        (action,) = await looks(world)
        assert (action.what, action.subject) == ("spare", one)
        does = "it executes job build of acme/widgets, run 4711, attempt 1"
        assert action.reason == f"{does}, but the CI sees no runner there"
        assert world.memory.tables.instances[one].state is RUNNING


async def test_a_second_list_that_shows_the_runner_spares_its_instance() -> None:
    async with a_world(settings=on_github()) as world:
        one = await serving(world, online=False)
        await looks(world, 1)
        await asyncio.sleep(61)
        ports = world.ports()
        listed, there = [[], [Registration(one, "4711", False, runner=f"bullpen.{one}.0", online=True)]], 0

        async def registrations() -> list[Registration]:
            nonlocal there
            there += 1
            return listed[min(there, 2) - 1]

        ports.ci.registrations = registrations  # type: ignore[method-assign]
        assert ("terminate", one) in [(action.what, action.subject) for action in await refreshed(world, ports)]
        assert world.memory.tables.instances[one].state is RUNNING


async def test_a_silent_instance_is_left_to_its_lease() -> None:
    async with a_world(settings=on_github()) as world:
        one = await serving(world, online=False)
        mute(world, [one])
        await asyncio.sleep(30)
        assert [action for action in await looks(world) if "the CI sees" in action.reason] == []


async def test_a_registration_for_one_job_has_the_time_of_a_cleaning_to_come_back() -> None:
    async with a_world(settings=on_github(registration="jit")) as world:
        one = await serving(world, online=False)
        assert await looks(world, 3) == []
        await asyncio.sleep(61)
        assert [action.subject for action in await looks(world, 1)] == [one]


async def test_the_embedded_ci_does_not_know_connections_and_no_instance_is_ended() -> None:
    async with a_world(settings=small()) as world:
        (one,) = ids(await provisioned(world, "run", 1))
        world.memory.registrations.clear()
        world.memory.registrations["i-gone"] = Registration("i-gone", "run", busy=False)
        assert [(action.what, action.subject) for action in await looks(world)] == [("deregister", "i-gone")]
        assert world.memory.tables.instances[one].state is RUNNING


def failing(world: World, error: Exception) -> Ports:
    ports = world.ports()

    async def registrations() -> list[Registration]:
        raise error

    ports.ci.registrations = registrations  # type: ignore[method-assign]
    return ports


WARM = msgspec.structs.replace(on_github(), classes=small(idle_target=1).classes)


async def test_an_outage_of_the_ci_does_not_stop_the_other_work() -> None:
    async with a_world(settings=WARM) as world:
        actions = await refreshed(world, failing(world, Unavailable("GitHub did not answer")))
        assert [one.what for one in actions] == ["make queue", "cannot list runners", "create"]
        assert actions[1].reason == "GitHub did not answer"


async def test_a_refusal_of_the_ci_is_raised_after_the_rest_is_done() -> None:
    async with a_world(settings=WARM) as world:
        with pytest.raises(Hindered, match="the token lacks Administration") as hindered:
            await refreshed(world, failing(world, PermissionDenied("the token lacks Administration")))
        assert [one.what for one in hindered.value.actions] == ["make queue", "cannot list runners", "create"]
        assert len(machines(world)) == 1


async def test_no_instance_is_ended_if_most_runners_disconnect_at_once() -> None:
    async with a_world(settings=on_github()) as world:
        running = ids(await provisioned(world, "4711", 10))
        for one in running:
            lists(world, one, one, online=False)
        actions = await looks(world)
        assert [(action.what, action.subject) for action in actions] == [("spare", "acme/widgets")]
        assert "the CI does not see 10 of 10 runners" in actions[0].reason
        assert sorted(machines(world)) == sorted(running)
        for one in running[3:]:
            lists(world, one, one, online=True)
        await looks(world)
        assert sorted(machines(world)) == sorted(running[3:])
