"""What the pickup promises: which worker gets which ticket, when the pool is exhausted, and the last look."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import messages
from bullpen.config import Pickup as PickupSettings
from bullpen.config import ResourceClass, Settings
from bullpen.engines.memory import Rates
from bullpen.inventory import status
from bullpen.model.ticket import TICKET_LIMIT, Ticket, UsageClass
from bullpen.ports import Message, Ports
from bullpen.provision.pickup import TicketPickup
from bullpen.sim.world import World
from fixtures import a_world, ids, provisioned, refreshed, released, requests, small, tickets, with_pool


async def put(world: World, *bodies: str) -> None:
    """Put messages in front of everything else."""
    queue = world.ports().queue
    waiting = await queue.take("small", 1000)
    await queue.send("small", messages([*bodies, *waiting]))


def a_pickup(world: World, ports: Ports, run_id: str = "run", **needs: Any) -> TicketPickup:
    wanted = world.settings.requirements("small", **needs)
    return TicketPickup(ports, world.settings, wanted, run_id, by="a test")


class Sends:
    """Notes what is sent to a queue, and with which delay."""

    def __init__(self, ports: Ports) -> None:
        self.noted: list[tuple[list[Message], float]] = []
        send = ports.queue.send

        async def noting(resource_class: str, messages: Sequence[Message], delay: float = 0.0) -> None:
            self.noted.append((list(messages), delay))
            await send(resource_class, messages, delay)

        ports.queue.send = noting  # type: ignore[method-assign]


MISFITS = pytest.mark.parametrize(
    "misfit",
    [
        {"usage_class": UsageClass.SPOT},
        {"allowed_types": ("c6i.*",)},
        {"cpu": 2},
        {"mem": 2048},
        {"trust_domain": "another"},
    ],
    ids=lambda misfit: str(next(iter(misfit))),
)

BODIES = pytest.mark.parametrize(
    "written",
    [
        lambda ticket: ticket.to_json(),
        lambda ticket: replace(ticket, version=None, trust_domain="", image_generation=None).to_json(),
        lambda ticket: json.dumps(json.loads(ticket.to_json()) | {"rack": "ü-7"}, indent=2),
        lambda ticket: json.dumps(dict(reversed(json.loads(ticket.to_json()).items()))) + "\n",
        lambda ticket: ticket.to_json().replace("Z", "+00:00"),
    ],
    ids=["of Bullpen", "seven fields", "unknown field", "other order", "other time format"],
)
"""Ways to write one ticket: encoded again, no two of them would be the same text."""


@MISFITS
async def test_a_ticket_that_fits_others_goes_back_after_three_seconds_and_expires_with_its_offer(
    misfit: dict[str, Any],
) -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        (body,) = world.memory.queues["small"].bodies()
        (ticket,) = tickets(world)
        ports = world.ports()
        sends = Sends(ports)
        pickup = a_pickup(world, ports, **misfit)
        assert await pickup.next() is None
        await pickup.close()
        assert sends.noted == [([Message(body, ticket.threshold)], 3.0)]


@BODIES
async def test_a_ticket_that_is_put_back_keeps_its_body_byte_for_byte(written: Callable[[Ticket], str]) -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        (ticket,) = tickets(world)
        world.memory.queues.clear()
        await put(world, written(ticket))
        pickup = a_pickup(world, world.ports(), usage_class=UsageClass.SPOT)
        assert await pickup.next() is None
        await pickup.close()
        assert world.memory.queues["small"].bodies() == [written(ticket)]


@BODIES
@pytest.mark.parametrize("in_hand", [False, True], ids=["on its way to the worker", "in the worker's hands"])
async def test_a_ticket_that_was_not_needed_goes_back_at_once_byte_for_byte_and_expires_with_its_offer(
    written: Callable[[Ticket], str], in_hand: bool
) -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        (ticket,) = tickets(world)
        world.memory.queues.clear()
        await put(world, written(ticket))
        ports = world.ports(rates=Rates(latency=(0.1, 0.1)))
        sends = Sends(ports)
        pickup = a_pickup(world, ports)
        worker = asyncio.create_task(pickup.next())
        hand_out = pickup._hand_out

        def cancelling() -> bool:
            waits = hand_out()
            if pickup._handed:
                worker.cancel()
            return waits

        if in_hand:
            pickup._hand_out = cancelling  # type: ignore[method-assign]
        else:
            asyncio.get_running_loop().call_later(0.05, worker.cancel)
        await asyncio.gather(worker, return_exceptions=True)
        assert worker.cancelled()
        await pickup.close()
        assert sends.noted == [([Message(written(ticket), ticket.threshold)], 0.0)]
        assert world.memory.queues["small"].bodies() == [written(ticket)]


async def test_tickets_that_went_back_are_gone_once_their_offers_are() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        await provisioned(world, "misfit", 1, trust_domain="another")
        assert len(tickets(world)) == 2
        await asyncio.sleep(world.settings.timings.idle)
        pools = {pool.resource_class: pool for pool in (await status(world.ports(), world.settings)).pools}
        assert (pools["small"].tickets, pools["small"].claimable) == (0, 0)


async def test_a_put_back_never_makes_another_run_launch_cold() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        await asyncio.sleep(6)
        misfit = await provisioned(world, "one", 1, trust_domain="another")
        assert misfit.created == 1
        assert sorted(ticket.instance_id for ticket in tickets(world)) == pool
        assert ids(await provisioned(world, "two", 2)) == pool


async def test_a_ticket_whose_time_has_come_is_dropped() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        (ticket,) = tickets(world)
        world.memory.queues.clear()
        past = replace(ticket, instance_id="i-late", threshold=world.clock.now() - timedelta(seconds=1))
        await put(world, past.to_json())
        await provisioned(world, "run", 1)
        assert tickets(world) == []


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "[]",
        "{}",
        '{"instanceId": 7}',
        "\x00\x01",
        '{"a":' * 5000,
        " " * (TICKET_LIMIT + 1),
        json.dumps({"instanceId": "i-" + "9" * TICKET_LIMIT}),
    ],
    ids=["empty", "text", "list", "no fields", "wrong type", "control", "deep", "oversized", "oversized json"],
)
async def test_a_message_that_is_no_ticket_is_dropped(body: str) -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        await put(world, body)
        outcome = await provisioned(world, "run", 2)
        assert ids(outcome) == pool
        assert world.memory.queues["small"].bodies() == []


async def test_a_ticket_of_another_class_or_contradicting_its_own_is_dropped() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        (ticket,) = tickets(world)
        world.memory.queues.clear()
        foreign = replace(ticket, instance_id="i-1", resource_class="large")
        contradicting = replace(ticket, instance_id="i-2", cpu=0)
        unknown = replace(ticket, instance_id="i-3", resource_class="huge")
        await put(world, foreign.to_json(), contradicting.to_json(), unknown.to_json())
        await provisioned(world, "run", 3)
        assert tickets(world) == []


async def test_a_ticket_of_an_instance_that_does_not_exist_costs_a_collision_and_no_more() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 1)
        (ticket,) = tickets(world)
        await put(world, replace(ticket, instance_id="i-unknown").to_json())
        outcome = await provisioned(world, "run", 1)
        assert ids(outcome) == pool
        assert outcome.collisions == 1


async def test_a_ticket_of_the_seven_plain_fields_claims_too() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 1)
        (ticket,) = tickets(world)
        plain = replace(ticket, version=None, image_generation=None).to_json()
        assert sorted(json.loads(plain)) == sorted(
            ["instanceId", "usageClass", "instanceType", "cpu", "mem", "resourceClass", "threshold"]
        )
        world.memory.queues.clear()
        await put(world, plain)
        ports = world.ports()
        assert ids(await provisioned(world, "run", 1, ports)) == pool
        assert requests(ports)["records.claimable"] == 0


async def test_a_plain_ticket_of_another_trust_domain_does_not_claim() -> None:
    async with a_world() as world:
        await with_pool(world, 1, trust_domain="secret")
        (ticket,) = tickets(world)
        world.memory.queues.clear()
        await put(world, replace(ticket, version=None, trust_domain="", image_generation=None).to_json())
        assert (await provisioned(world, "run", 1)).created == 1


async def test_a_forged_trust_domain_does_not_claim() -> None:
    async with a_world() as world:
        (victim,) = await with_pool(world, 1, trust_domain="secret")
        (ticket,) = tickets(world)
        world.memory.queues.clear()
        await put(world, replace(ticket, trust_domain="default").to_json())
        outcome = await provisioned(world, "run", 1)
        assert victim not in ids(outcome)


async def test_a_doubled_ticket_claims_once() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        await put(world, *[ticket.to_json() for ticket in tickets(world)])
        outcome = await provisioned(world, "run", 2)
        assert ids(outcome) == pool
        assert outcome.collisions == 0


async def test_a_stale_ticket_in_front_of_the_good_one_costs_no_cold_start() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        stale = [replace(ticket, version=(ticket.version or 0) - 1).to_json() for ticket in tickets(world)]
        await put(world, *stale)
        await asyncio.sleep(6)
        assert ids(await provisioned(world, "run", 2)) == pool


async def test_instances_kept_for_their_target_are_reused_though_their_old_tickets_are_still_there() -> None:
    settings = small(idle_target=2)
    async with a_world(settings=settings) as world:
        pool = await with_pool(world, 2)
        await asyncio.sleep(300)
        assert {action.what for action in await refreshed(world)} == {"keep"}
        await asyncio.sleep(6)
        assert ids(await provisioned(world, "run", 2)) == pool


async def test_no_instance_is_handed_out_twice() -> None:
    async with a_world() as world:
        await with_pool(world, 3)
        await put(world, *[ticket.to_json() for ticket in tickets(world)] * 3)
        pickup = a_pickup(world, world.ports())
        handed = []
        while (candidate := await pickup.next()) is not None:
            handed.append(candidate.id)
        await pickup.close()
        assert len(handed) == len(set(handed)) == 3


async def test_an_empty_queue_and_an_empty_index_mean_exhausted_for_every_worker() -> None:
    async with a_world() as world:
        pickup = a_pickup(world, world.ports())
        assert await asyncio.gather(*(pickup.next() for _ in range(5))) == [None] * 5


async def test_exhaustion_latches_for_this_provision() -> None:
    async with a_world() as world:
        ports = world.ports()
        pickup = a_pickup(world, ports)
        await pickup.next()
        await with_pool(world, 1)
        before = requests(ports).total()
        assert await pickup.next() is None
        assert requests(ports).total() == before


async def test_the_queue_is_read_no_further_once_an_id_was_seen_five_times() -> None:
    settings = Settings(pickup=PickupSettings(misses=1000))
    async with a_world(settings=settings) as world:
        await with_pool(world, 1, trust_domain="another")
        ports = world.ports()
        pickup = a_pickup(world, ports)
        queue = world.memory.queues["small"]
        send = queue.add
        # The queue ignores every delay.
        queue.add = lambda body, visible_at, *more: send(body, 0.0, *more)  # type: ignore[method-assign]
        assert await pickup.next() is None
        assert requests(ports)["queue.take"] == 5


async def test_after_two_batches_without_a_fit_the_index_is_read_instead() -> None:
    async with a_world() as world:
        await with_pool(world, 20, trust_domain="another")
        fitting = (await provisioned(world, "mine", 1)).members[0].instance.id
        await released(world, "mine")
        ports = world.ports()
        pickup = a_pickup(world, ports)
        found = await pickup.next()
        await pickup.close()
        assert found is not None
        assert found.id == fitting
        assert requests(ports)["queue.take"] == 2
        assert requests(ports)["records.claimable"] == 1


async def test_types_match_by_pattern_without_regard_to_case() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 1)
        outcome = await provisioned(world, "run", 1, allowed_types=("c6i.*", "SIM.*"))
        assert ids(outcome) == pool


async def test_an_instance_that_is_larger_than_requested_fits() -> None:
    classes = {"small": ResourceClass(cpu=1, mem=1024)}
    async with a_world(settings=Settings(classes=classes)) as world:
        pool = await with_pool(world, 1, cpu=4, mem=8192)
        assert ids(await provisioned(world, "run", 1, cpu=2, mem=2048)) == pool
