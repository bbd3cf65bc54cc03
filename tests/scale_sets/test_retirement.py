"""A set that left the settings is deleted after its last runner, and only by the process that decides about it."""

import asyncio
from collections.abc import Mapping

import pytest

from builders import expire
from bullpen.errors import Conflict
from bullpen.model.scale_set import READY, RETIRED, RETIRING
from bullpen.scale_sets.desired import SetStep
from bullpen.sim.loop import virtual_run
from fixtures import Failure, faults
from scale_sets.desired_sets import (
    NAME,
    at_github,
    desired,
    failure,
    github,
    keep_listening,
    listens,
    pass_over,
    record,
    settings,
)
from set_builders import engaged, open_session, take, yield_session

# ---- retired


async def test_a_set_that_left_the_settings_is_retired_and_deleted() -> None:
    async with github() as world:
        await pass_over(world)
        assert await pass_over(world, settings()) == ["retire set", "delete set"]
        assert (record(world).state, at_github(world)) == (RETIRED, {})
        assert await pass_over(world, settings()) == []


async def test_a_set_that_retires_keeps_its_members_and_is_deleted_after_the_last() -> None:
    async with github() as world:
        await pass_over(world)
        walk = engaged("i-1", NAME)
        for change in walk:
            await world.ports().records.apply(change)
        assert await pass_over(world, settings()) == ["retire set"]
        assert await pass_over(world, settings()) == []
        assert (record(world).state, len(at_github(world))) == (RETIRING, 1)
        await world.ports().records.apply(expire(walk[-1].after))
        assert await pass_over(world, settings()) == ["delete set"]


async def test_a_set_that_comes_back_into_the_settings_is_revived() -> None:
    async with github() as world:
        await pass_over(world)
        for change in engaged("i-1", NAME):
            await world.ports().records.apply(change)
        await pass_over(world, settings())
        assert await pass_over(world, settings("small", max=2)) == ["revive set"]
        assert (record(world).state, record(world).rules.max) == (READY, 2)


async def test_a_retired_set_is_created_again_when_the_settings_have_it_again() -> None:
    async with github() as world:
        await pass_over(world)
        await pass_over(world, settings())
        assert await pass_over(world) == ["create set", "create set"]
        assert record(world).state is READY


async def test_a_set_that_retires_before_it_was_found_leaves_nothing_at_github() -> None:
    async with github() as world:
        ports = world.ports()
        faults(ports).fail_next("scale_sets.create", Failure.LOST_ANSWER)
        await failure(world, ports=ports)
        assert await pass_over(world, settings()) == ["retire set", "delete set"]
        assert at_github(world) == {}


def test_a_retirement_that_is_killed_at_any_callback_is_finished() -> None:
    async def history(step: int) -> bool:
        async with github() as world:
            await pass_over(world)
            victim, task = world.start("victim", lambda ports: desired(world, settings(), ports).run_once())
            victim.die_at = step
            await victim.ended()
            await pass_over(world, settings())
            assert (record(world).state, at_github(world)) == (RETIRED, {}), step
            return victim.dead or not task.done()

    died = 0
    while virtual_run(history(died + 1), allow_left_behind=True):
        died += 1
    assert died > 5


async def test_the_session_of_a_deleted_set_is_closed() -> None:
    async with github() as world:
        await pass_over(world)
        assert world.memory.hub is not None
        service = world.memory.hub.sets
        opened = service.open(record(world).ci_id, "web-1")
        held = await listens(world)
        await world.ports().records.apply(open_session(held, ci_session=opened.id))
        closed: list[tuple[int, str]] = []
        ports = world.ports()
        close = ports.scale_sets.close

        async def closing(set_id: int, session_id: str) -> None:
            closed.append((set_id, session_id))
            await close(set_id, session_id)

        ports.scale_sets.close = closing  # type: ignore[method-assign]
        ci_id = record(world).ci_id
        await pass_over(world, settings(), ports=ports, waits=True)
        assert closed == [(ci_id, opened.id)]


# ---- who decides


async def test_another_holder_keeps_its_set_and_its_rules() -> None:
    async with github() as world:
        await pass_over(world)
        await listens(world, "web-1")
        assert await pass_over(world, settings()) == ["leave set"]
        assert await pass_over(world, settings("small", max=2)) == ["leave set"]
        assert (record(world).state, record(world).rules.max) == (READY, 100)


async def test_the_holder_itself_retires_its_set() -> None:
    async with github() as world:
        await pass_over(world)
        session = await listens(world)
        holds: Mapping[str, str] = {NAME: session.round}
        assert await pass_over(world, settings(), holds=lambda: holds) == ["retire set", "delete set"]


async def test_a_holder_that_was_replaced_retires_nothing() -> None:
    async with github() as world:
        await pass_over(world)
        await listens(world)
        assert await pass_over(world, settings(), holds=lambda: {NAME: "another round"}) == ["leave set"]


async def test_a_free_session_vetoes_nothing() -> None:
    async with github() as world:
        await pass_over(world)
        await world.ports().records.apply(yield_session(await listens(world)))
        assert await pass_over(world, settings()) == ["retire set", "delete set"]


async def test_a_process_that_passes_again_and_again_retires_once_the_record_stood_still_for_a_lease() -> None:
    async with github() as world:
        await pass_over(world)
        await listens(world)
        keeper = desired(world, settings())
        whats = []
        for _ in range(4):
            whats.append([one.what for one in (await keeper.run_once()).actions])
            await asyncio.sleep(5)
        assert whats == [["leave set"], ["leave set"], ["leave set"], ["retire set", "delete set"]]


async def test_a_holder_that_shows_signs_of_life_keeps_its_set_however_long_another_process_looks() -> None:
    async with github() as world:
        await pass_over(world)
        beats = asyncio.create_task(keep_listening(world, await listens(world)))
        keeper = desired(world, settings())
        for _ in range(10):
            (action,) = (await keeper.run_once()).actions
            assert action.what == "leave set"
            await asyncio.sleep(5)
        await beats


async def test_a_single_pass_waits_to_see_whether_the_holder_lives() -> None:
    async with github() as world:
        await pass_over(world)
        session = await listens(world)
        beats = asyncio.create_task(keep_listening(world, session))
        assert await pass_over(world, settings(), waits=True) == ["leave set"]
        await beats
        began = asyncio.get_running_loop().time()
        assert await pass_over(world, settings(), waits=True) == ["retire set", "delete set"]
        assert asyncio.get_running_loop().time() - began >= world.settings.timings.lease


async def test_a_holder_that_takes_the_set_in_the_same_moment_is_not_retired() -> None:
    async with github() as world:
        await pass_over(world)
        free = (await world.ports().records.apply(yield_session(await listens(world))))[0]
        late = desired(world, settings())
        one, session = await late._read(NAME)
        step = await late._next(NAME, one, session)
        await world.ports().records.apply(take(free, "web-2"))
        assert isinstance(step, SetStep)
        with pytest.raises(Conflict, match="version"):
            await step.perform()
        assert record(world).state is READY
