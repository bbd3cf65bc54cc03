"""Rotate: every instance of a class is replaced, and its warm target has no gap."""

import asyncio
import sys
from typing import Any

import pytest

from bullpen.config import Limits, Settings
from bullpen.errors import ConfigError, Refused
from bullpen.model.instance import IDLE, RUNNING, TERMINATED
from bullpen.model.rotation import rotation_key
from bullpen.model.ticket import UsageClass
from bullpen.operate import OperateOutcome, pause, resume, rotate
from bullpen.refresh import leases, orders
from bullpen.refresh.orders import OperatorOrders
from bullpen.sim.world import World
from fixtures import a_world, ids, machines, mute, provisioned, records, refreshed, released, small, steps, with_pool

LEASE = 61.0  # seconds: a little more than what a simulated agent takes


async def rotated(world: World, resource_class: str = "small", **more: Any) -> OperateOutcome:
    return await rotate(world.ports(), world.settings, resource_class, **{"operator": "ada", **more})


def on_offer(world: World) -> list[str]:
    return [one.id for one in records(world, IDLE) if one.is_claimable]


async def warmed(world: World) -> list[str]:
    """The idle target is on offer."""
    await refreshed(world)
    await asyncio.sleep(60)
    await refreshed(world)
    return on_offer(world)


async def keeps_warm(world: World, until: float, least: int) -> list[int]:
    """Refresh looks every five seconds; returns how many were on offer each time."""
    seen = []
    for _ in range(int(until / 5)):
        await refreshed(world)
        seen.append(len(on_offer(world)))
        assert seen[-1] >= least, f"a gap in the warm target: {seen}"
        await asyncio.sleep(5)
    return seen


async def test_those_on_offer_are_replaced_a_share_at_a_time_without_a_gap() -> None:
    async with a_world(settings=small(idle_target=8)) as world:
        old = await warmed(world)
        assert len(old) == 8
        outcome = await rotated(world)
        assert [(one.what, one.reason) for one in outcome.actions] == [
            ("rotate", "8 free: replaced, 2 at a time, as others take their place")
        ]
        assert on_offer(world) == old
        seen = await keeps_warm(world, 300, least=8)
        assert max(seen) <= 10
        assert not {*on_offer(world)} & {*old}
        assert len(machines(world)) == 8
        assert steps(world, rotation_key("small")) == ["rotate", "finish"]


async def test_busy_ones_leave_after_their_run() -> None:
    async with a_world() as world:
        (one,) = ids(await provisioned(world, "run", 1))
        await rotated(world)
        await refreshed(world)
        assert world.memory.tables.instances[one].state is RUNNING
        assert steps(world, rotation_key("small")) == ["rotate"]
        assert (await released(world, "run")).terminated == (one,)
        await refreshed(world)
        assert steps(world, rotation_key("small")) == ["rotate", "finish"]


async def test_without_an_idle_target_those_on_offer_are_ended_at_once() -> None:
    async with a_world() as world:
        await with_pool(world, 3)
        outcome = await rotated(world)
        assert [one.reason for one in outcome.actions] == ["3 free: ended at once"]
        assert machines(world) == []


async def test_instances_that_come_later_are_left_alone() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        old = await warmed(world)
        await rotated(world)
        new = ids(await provisioned(world, "run", 1, usage_class=UsageClass.SPOT))
        await keeps_warm(world, 200, least=2)
        assert not world.memory.tables.instances[new[0]].is_drained
        assert not {*on_offer(world)} & {*old}


async def test_any_process_goes_on_with_a_rotation() -> None:
    async with a_world(settings=small(idle_target=4)) as world:
        old = await warmed(world)
        await rotated(world)
        for turn in range(60):  # each refresh is a process of its own, and dies at another callback
            process, _ = world.start("refresher", lambda ports: refreshed(world, ports))
            process.die_at = 20 + 7 * turn
            await process.ended()
            assert len(on_offer(world)) >= 4
            await asyncio.sleep(3)
        await keeps_warm(world, 120, least=4)
        assert not {*on_offer(world)} & {*old}


async def test_a_pool_at_its_cap_keeps_its_target_and_says_why_it_does_not_go_on() -> None:
    settings = Settings(limits=Limits(max_instances=2), classes=small(idle_target=2).classes)
    async with a_world(settings=settings) as world:
        old = await warmed(world)
        await rotated(world)
        actions = await refreshed(world)
        (why,) = [one.reason for one in actions if one.what == "cannot create"]
        assert why.startswith("limits.max-instances is 2")
        assert on_offer(world) == old


async def test_every_class_is_rotated_if_none_is_named() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        await provisioned(world, "other", 1, resource_class="large")
        outcome = await rotated(world, "")
        assert [one.subject for one in outcome.actions] == ["class large", "class small"]


async def test_no_class_is_rotated_if_one_has_more_instances_than_a_rotation_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["bullpen.operate.rotate"], "MEMBERS_MOST", 1)
    async with a_world() as world:
        await provisioned(world, "run", 1, resource_class="large")
        await provisioned(world, "other", 2)
        with pytest.raises(Refused, match="class small: a rotation may have 1 instances, and the class has 2"):
            await rotated(world, "")
        assert world.memory.tables.rotations == {}


async def test_a_rotation_of_a_class_without_instances_does_nothing() -> None:
    async with a_world() as world:
        assert (await rotated(world)).actions == ()
        assert world.memory.tables.rotations == {}


async def test_a_dry_run_changes_nothing() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        assert len((await rotated(world, dry_run=True)).actions) == 1
        assert on_offer(world) == pool
        assert world.memory.tables.rotations == {}


async def resumed(world: World) -> None:
    await resume(world.ports(), world.settings, "small", operator="ada")


@pytest.mark.parametrize("pauses_first", [True, False])
async def test_a_pause_holds_a_rotation_which_goes_on_without_a_gap_after_the_resume(pauses_first: bool) -> None:
    async with a_world(settings=small(idle_target=8)) as world:
        old = await warmed(world)
        orders = [rotated(world), pause(world.ports(), world.settings, "small", "broken", operator="ada")]
        (first, second) = reversed(orders) if pauses_first else orders
        await first
        await second
        for _ in range(10):
            await refreshed(world)
            await asyncio.sleep(5)
        assert on_offer(world) == old, "none could take their place"
        await resumed(world)
        await keeps_warm(world, 300, least=8)
        assert not {*on_offer(world)} & {*old}


async def test_while_its_class_is_paused_a_rotation_still_drains_what_is_busy() -> None:
    async with a_world() as world:
        (one,) = ids(await provisioned(world, "run", 1))
        await pause(world.ports(), world.settings, "small", "broken", operator="ada")
        await rotated(world)
        assert (await released(world, "run")).terminated == (one,)


async def test_the_words_of_a_rotation_in_a_paused_class_say_that_free_ones_stay() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        await pause(world.ports(), world.settings, "small", "broken", operator="ada")
        (would,) = (await rotated(world, dry_run=True)).actions
        assert (would,) == (await rotated(world)).actions
        assert would.reason == "2 free: left until the resume"


@pytest.mark.parametrize("goes_on", [refreshed, rotated])
async def test_an_instance_whose_worker_is_lost_takes_the_place_of_none(goes_on: Any) -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        old = await warmed(world)
        await rotated(world)
        await refreshed(world)  # launches a replacement
        await asyncio.sleep(6)
        await refreshed(world)  # adopts it
        (new,) = {*on_offer(world)} - {*old}
        mute(world, [new])
        await asyncio.sleep(LEASE)
        async for plan in leases.plans(world.ports(), world.settings):
            await plan.perform()
        await goes_on(world)
        assert {*old} <= {*on_offer(world)}


async def test_a_class_that_is_not_known_is_refused() -> None:
    async with a_world() as world:
        with pytest.raises(ConfigError, match="not configured"):
            await rotated(world, "huge")


async def test_a_rotation_is_not_over_while_a_list_that_lags_hides_one_of_its_instances() -> None:
    async with a_world() as world:
        (one,) = ids(await provisioned(world, "run", 1))
        await rotated(world)
        ports = world.ports()
        asked = await OperatorOrders.read(ports)
        assert [plan async for plan, _ in orders.plans(ports, world.settings, [], asked)] == []
        await released(world, "run")
        assert world.memory.tables.instances[one].state is TERMINATED
        (plan,) = [plan async for plan, _ in orders.plans(ports, world.settings, [], asked)]
        assert [(action.what, action.subject) for action in plan.actions] == [("finish rotation", "small")]
