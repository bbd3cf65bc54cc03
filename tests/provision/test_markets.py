"""A run that asks for spot where the class falls back gets exactly N, of either market, the requested one first."""

import asyncio
from typing import Any

import pytest

from bullpen.config import Settings
from bullpen.model.instance import RUNNING
from bullpen.model.ticket import UsageClass
from bullpen.provision import Request, provision
from bullpen.sim.world import World
from fixtures import a_world, ids, machines, mute, provisioned, records, refreshed, released, requests, small, tickets

SPOT, ON_DEMAND = UsageClass.SPOT, UsageClass.ON_DEMAND
FALLS_BACK = small(spot_fallback=True)


async def idle(world: World, *markets: UsageClass) -> dict[str, UsageClass]:
    """A pool with one idle instance of each of these markets, their tickets in this order; market by id."""
    found: dict[str, UsageClass] = {}
    for number, market in enumerate(markets):
        outcome = await provisioned(world, f"before-{number}", 1, usage_class=market)
        found |= {member.instance.id: member.instance.usage_class for member in outcome.members}
        assert list(found.values())[-1] is market
    for number in range(len(markets)):
        await released(world, f"before-{number}")
    assert [ticket.usage_class for ticket in tickets(world)] == list(markets)
    return found


def used(world: World) -> list[str]:
    return sorted(one.usage_class for one in records(world, RUNNING))


async def test_a_second_provision_counts_what_came_on_demand() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        world.memory.yard.spot_capacity = 0
        first = await provisioned(world, "run", 2, usage_class=SPOT)
        assert used(world) == ["on-demand", "on-demand"]
        second = await provisioned(world, "run", 2, usage_class=SPOT)
        assert ids(second) == ids(first) == machines(world)


async def test_a_second_provision_tops_up_beside_both_markets() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        world.memory.yard.spot_capacity = 1
        first = await provisioned(world, "run", 2, usage_class=SPOT)
        assert used(world) == ["on-demand", "spot"]
        second = await provisioned(world, "run", 3, usage_class=SPOT)
        assert set(ids(first)) < set(ids(second))
        assert len(machines(world)) == 3


async def test_one_lost_of_three_gets_one_replacement() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        world.memory.yard.spot_capacity = 0
        lost, *rest = ids(await provisioned(world, "run", 3, usage_class=SPOT))
        mute(world, [lost])
        await asyncio.sleep(20)
        request = Request("run", 3, world.settings.requirements("small", SPOT), 1800.0, spares_silent=True)
        outcome = await provision(world.ports(), world.settings, request, stop=asyncio.Event())
        assert set(rest) < set(ids(outcome))
        assert len(machines(world)) == 4, "the silent one is spared, and one is new"


async def test_idle_on_demand_machines_come_before_any_launch() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        pool = await idle(world, *[ON_DEMAND] * 4)
        outcome = await provisioned(world, "run", 4, usage_class=SPOT)
        assert ids(outcome) == sorted(pool) == machines(world)


async def test_idle_on_demand_machines_without_a_ticket_come_before_any_launch() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        pool = await idle(world, *[ON_DEMAND] * 4)
        world.memory.queues.clear()
        outcome = await provisioned(world, "run", 4, usage_class=SPOT)
        assert ids(outcome) == sorted(pool) == machines(world)


ORDERS: dict[str, tuple[UsageClass, ...]] = {
    "requested in front": (SPOT, SPOT, ON_DEMAND, ON_DEMAND),
    "requested behind": (ON_DEMAND, ON_DEMAND, SPOT, SPOT),
    "requested behind many": (*[ON_DEMAND] * 12, SPOT, SPOT),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("lost", [False, True], ids=["", "tickets lost"])
async def test_idle_machines_of_the_requested_market_come_first(order: tuple[UsageClass, ...], lost: bool) -> None:
    async with a_world(settings=FALLS_BACK) as world:
        pool = await idle(world, *order)
        if lost:
            world.memory.queues.clear()
        await provisioned(world, "run", 2, usage_class=SPOT)
        assert used(world) == ["spot", "spot"]
        assert machines(world) == sorted(pool)


async def test_what_is_missing_of_the_requested_market_is_taken_of_the_other_and_only_the_rest_launched() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        pool = await idle(world, ON_DEMAND, SPOT, ON_DEMAND)
        outcome = await provisioned(world, "run", 4, usage_class=SPOT)
        assert set(pool) < set(ids(outcome))
        assert used(world) == ["on-demand", "on-demand", "spot", "spot"]
        assert len(machines(world)) == 4


async def test_tickets_of_the_other_market_that_were_not_needed_go_back_without_delay() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        pool = await idle(world, ON_DEMAND, SPOT, ON_DEMAND)
        await provisioned(world, "run", 1, usage_class=SPOT)
        left = sorted(id for id, market in pool.items() if market is ON_DEMAND)
        assert sorted(ticket.instance_id for ticket in tickets(world)) == left


async def test_a_queue_full_of_the_other_market_costs_few_requests() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        await idle(world, *[ON_DEMAND] * 30)
        ports = world.ports()
        assert (await provisioned(world, "run", 2, ports, usage_class=SPOT)).selected == 2
        assert requests(ports)["queue.take"] <= 2
        assert requests(ports)["records.claimable"] == 1


@pytest.mark.parametrize(
    ("settings", "asked", "others"),
    [(FALLS_BACK, ON_DEMAND, SPOT), (small(), SPOT, ON_DEMAND)],
    ids=["on-demand never takes spot", "spot without a fallback takes no on-demand"],
)
async def test_the_other_market_does_not_fit(settings: Settings, asked: UsageClass, others: UsageClass) -> None:
    async with a_world(settings=settings) as world:
        pool = await idle(world, others, others)
        outcome = await provisioned(world, "run", 2, usage_class=asked)
        assert set(ids(outcome)).isdisjoint(pool)
        assert used(world) == [asked, asked]


async def test_on_demand_does_not_count_the_spot_machines_of_its_run() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        first = await provisioned(world, "run", 2, usage_class=SPOT)
        second = await provisioned(world, "run", 2, usage_class=ON_DEMAND)
        assert set(ids(second)).isdisjoint(ids(first))
        assert used(world) == ["on-demand", "on-demand", "spot", "spot"]


async def test_fewer_are_acceptable_of_both_markets_together() -> None:
    async with a_world(settings=FALLS_BACK, capacity=3) as world:
        world.memory.yard.spot_capacity = 1
        first = await provisioned(world, "run", 5, usage_class=SPOT, allow_partial=True)
        assert used(world) == ["on-demand", "on-demand", "spot"]
        assert ids(await provisioned(world, "run", 3, usage_class=SPOT)) == ids(first)


async def test_a_cap_counts_the_machines_of_both_markets_once() -> None:
    async with a_world(settings=small(spot_fallback=True, max_instances=3)) as world:
        world.memory.yard.spot_capacity = 1
        first = await provisioned(world, "run", 3, usage_class=SPOT)
        assert first.succeeded, first.reason
        assert ids(await provisioned(world, "run", 3, usage_class=SPOT)) == ids(first)
        refused = await provisioned(world, "run", 4, usage_class=SPOT)
        assert "max-instances is 3; the total would be 4" in refused.reason
        assert machines(world) == ids(first)


async def test_machines_kept_warm_serve_a_run_that_falls_back_to_their_market() -> None:
    async with a_world(settings=small(spot_fallback=True, idle_target=2)) as world:
        await refreshed(world)
        await asyncio.sleep(30)
        await refreshed(world)
        warm = machines(world)
        assert ids(await provisioned(world, "run", 2, usage_class=SPOT)) == warm == machines(world)


async def test_two_at_once_get_the_same_instances_of_both_markets() -> None:
    async with a_world(settings=FALLS_BACK) as world:
        world.memory.yard.spot_capacity = 1

        async def begun(after: float) -> Any:
            await asyncio.sleep(after)
            return await provisioned(world, "run", 3, usage_class=SPOT)

        one, other = await asyncio.gather(begun(0.0), begun(0.05))
        assert ids(one) == ids(other) == machines(world)
        assert len(machines(world)) == 3
