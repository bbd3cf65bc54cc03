"""Claims that are under way count towards the largest number of a set, until the list of members has them. A set that
does not take its claims any more claims nothing else."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bullpen.errors import Unavailable
from bullpen.model import scale_set as sets
from bullpen.model.instance import CLAIMED, Instance
from bullpen.ports.demand import JobDemand
from bullpen.scale_sets.claims import ClaimBurst
from bullpen.scale_sets.supplier import Supplier
from bullpen.sim.world import World
from fixtures import records, with_pool
from scale_sets.fixtures import REPOSITORY, SET, a_set_world, settings_of
from scale_sets.test_listener import a_listener


async def a_supplier(world: World, assigned: int) -> Supplier:
    listener = await a_listener(world)
    now = asyncio.get_running_loop().time()
    listener._demand = JobDemand(assigned, 0, now, now, listens_since=now)
    return Supplier(
        world.ports(),
        world.settings,
        listener.scale_set,
        listener,
        listener.record,
        listener.board.given,
        linger=60.0,
        on_missing=lambda: None,
    )


def claimed(world: World) -> list[Instance]:
    return [one for one in records(world) if one.state is CLAIMED]


async def test_a_claim_that_is_engaged_while_the_members_are_read_is_counted() -> None:
    async with a_set_world(settings_of(max=1)) as world:
        supplier = await a_supplier(world, assigned=2)
        burst: Any = SimpleNamespace(open_places=1, held=set(), tried=[], failures={})
        supplier._bursts[asyncio.create_task(asyncio.sleep(60, 0))] = burst

        async def read() -> list[Any]:
            burst.open_places = 0
            return []

        supplier._watch.read = read  # type: ignore[method-assign]
        await supplier.turn()
        assert supplier.plan is not None
        assert supplier.plan.claims == 0
        await asyncio.gather(*supplier._bursts)


async def test_a_claim_that_has_only_been_ordered_is_counted() -> None:
    async with a_set_world(settings_of(max=2)) as world:
        supplier = await a_supplier(world, assigned=2)
        supplier._begin(2)
        (burst,) = supplier._bursts.values()
        assert burst.open_places == 2
        await asyncio.gather(*supplier._bursts)


async def test_the_place_of_a_claim_that_failed_stays_open_until_its_burst_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it claimed may become a member all the same."""
    async with a_set_world() as world:
        goes_on, asked = asyncio.Event(), 0

        async def select() -> None:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise Unavailable("the answer was lost")
            await goes_on.wait()

        monkeypatch.setattr(ClaimBurst, "_worker", lambda *args: SimpleNamespace(select=select))
        listener = await a_listener(world)
        scale_set, record = listener.scale_set, listener.record
        burst = ClaimBurst(world.ports(), world.settings, lambda: scale_set, lambda: None, record)
        task = asyncio.create_task(burst.run(2, lambda: None))
        await asyncio.sleep(1)
        assert burst.open_places == 2
        goes_on.set()
        with pytest.raises(Unavailable):
            await task
        assert burst.open_places == 0


async def test_a_set_that_retires_while_runners_register_claims_no_further_through_the_pool() -> None:
    async with a_set_world(settings_of()) as world:
        await with_pool(world, 12, trust_domain=REPOSITORY)
        ports, supplier = world.ports(), await a_supplier(world, assigned=2)
        await supplier.turn()
        stored = (await ports.records.scale_sets())[SET]
        now = ports.clock.now()
        await ports.records.apply(sets.retire(stored, sets.SetRetired(at=now, by="a test", why="", due=now)))
        await asyncio.gather(*supplier._bursts)
        assert len(claimed(world)) == 2


RETIRES = {"state": sets.RETIRING}


@pytest.mark.parametrize("changed", [RETIRES, {"trust_domain": "acme/other"}, {"resource_class": "large"}])
async def test_a_set_that_is_changed_while_no_runner_registers_claims_nothing_more(changed: dict[str, Any]) -> None:
    async with a_set_world(settings_of()) as world:
        await with_pool(world, 6, trust_domain=REPOSITORY)
        for temper in world.tempers.values():
            temper.registers_in = 300.0
        listener = await a_listener(world)
        scale_set = listener.scale_set
        burst = ClaimBurst(world.ports(), world.settings, lambda: scale_set, lambda: None, listener.record)
        task = asyncio.create_task(burst.run(1, lambda: None))
        await asyncio.sleep(1)
        before = burst.tried
        rules = replace(scale_set.rules, **{key: value for key, value in changed.items() if key != "state"})
        scale_set = replace(scale_set, rules=rules, state=changed.get("state", scale_set.state))
        assert (await task, burst.tried) == (0, before)
