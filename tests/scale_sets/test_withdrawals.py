"""A member whose registration was removed leaves its set or registers again, also where requests fail in between."""

import asyncio

import pytest

from bullpen.engines.memory import Failure
from bullpen.errors import Unavailable
from bullpen.ports.demand import JobDemand
from bullpen.scale_sets.members import MemberState
from bullpen.scale_sets.supplier import Supplier
from bullpen.sim.world import World
from fixtures import faults, with_pool
from scale_sets.fixtures import a_set_world, members, set_of, settings_of
from scale_sets.test_claims import a_supplier

LINGER = 60.0


def asks(supplier: Supplier, assigned: int) -> None:
    """The CI counts so many jobs from now on."""
    now = asyncio.get_running_loop().time()
    supplier._demand._demand = JobDemand(assigned, 0, now, now, listens_since=now - 3600.0)  # type: ignore[attr-defined]


async def with_idle_members(world: World, count: int) -> Supplier:
    """A supplier that needs none of them any more."""
    await with_pool(world, count, trust_domain="acme/widgets")
    supplier = await a_supplier(world, assigned=count)
    while [one.state for one in supplier.members] != [MemberState.IDLE] * count:
        await supplier.turn()
        await asyncio.sleep(1)
    await asyncio.sleep(LINGER)
    asks(supplier, 0)
    return supplier


async def test_members_are_withdrawn_although_the_removal_of_another_one_fails() -> None:
    async with a_set_world(settings_of()) as world:
        supplier = await with_idle_members(world, 3)
        faults(supplier._ports).fail_next("scale_sets.remove_runner", Failure.LOST_REQUEST)
        with pytest.raises(Unavailable):
            await supplier.turn()
        assert len(members(world)) == 1
        await supplier.turn()
        assert members(world) == []


@pytest.mark.parametrize("lost", ["scale_sets.remove_runner", "records.apply"])
async def test_a_member_that_may_have_lost_its_registration_in_vain_registers_again(lost: str) -> None:
    """A job came while it was withdrawn. GitHub would give that job to no other runner of the set."""
    async with a_set_world(settings_of(max=1)) as world:
        supplier = await with_idle_members(world, 1)
        (one,) = members(world)
        (before,) = set_of(world).runners
        failure = Failure.LOST_ANSWER if lost == "scale_sets.remove_runner" else Failure.LOST_REQUEST
        faults(supplier._ports).fail_next(lost, failure)
        with pytest.raises(Unavailable):
            await supplier.turn()
        assert set_of(world).runners == {}
        asks(supplier, 1)
        await supplier.turn()
        await asyncio.sleep(5)
        (after,) = set_of(world).runners
        assert (after != before, [found.id for found in members(world)]) == (True, [one.id])


async def test_a_member_whose_removal_may_have_succeeded_registers_again_once() -> None:
    async with a_set_world(settings_of(max=1)) as world:
        supplier = await with_idle_members(world, 1)
        (one,) = members(world)
        faults(supplier._ports).fail_next("scale_sets.remove_runner", Failure.LOST_REQUEST)
        with pytest.raises(Unavailable):
            await supplier.turn()
        asks(supplier, 1)
        for pause in (0.0, 0.0, 5.0, 5.0):
            await supplier.turn()
            await asyncio.sleep(pause)
        assert [line.step for line in world.memory.tables.stories[one.id]].count("recall") == 1
