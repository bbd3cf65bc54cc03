"""No set has more members than its `max`, also where lists of instances lag, and whenever its holder pauses or ends."""

import asyncio

from bullpen.engines.memory import Failure
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, Instance
from bullpen.model.signal import Kind, Signal
from bullpen.scale_sets.claims import ClaimBurst, engage
from bullpen.scale_sets.session import SessionRecord, StandBy
from bullpen.sim.world import World
from fixtures import faults, records, with_pool
from scale_sets.fixtures import SET, a_set_world, members, push, serve, session, settings_of
from scale_sets.test_claims import a_supplier
from scale_sets.test_listener import LEASE, taken
from scale_sets.watched import WatchedRuns
from set_builders import claim_for

DOMAIN = "acme/widgets"  # of the set
LAG = 600.0  # seconds by which lists are behind: longer than a story here lasts
LONG = 300.0  # seconds of a job


def lists_lag(world: World) -> None:
    """From now on: what has landed until now is listed."""
    world.memory.tables.instance_indexes.of_run.page(1)
    world.memory.tables.instance_indexes._lag = LAG


async def replaced(world: World) -> SessionRecord:
    """The session of a process that has paused, as another one takes it after a whole lease."""
    stand_by = StandBy(world.ports(), LEASE, "web-2")
    assert await stand_by.try_take(SET, session(world)) is None
    await asyncio.sleep(LEASE)
    record = await stand_by.try_take(SET, session(world))
    assert record is not None
    return record


async def claimed(world: World, *ids: str) -> list[Instance]:
    """Claimed for the set by a process that does nothing more."""
    ports = world.ports()
    scale_set = (await ports.records.scale_sets())[SET]
    found = [one for one in records(world, IDLE) if one.id in ids]
    changes = [claim_for(one, scale_set, until=one.threshold) for one in found]
    return [landed for change in changes for landed in await ports.records.apply(change)]


async def test_a_member_that_is_not_listed_yet_counts() -> None:
    async with a_set_world(settings_of(max=1)) as world:
        await with_pool(world, 3, trust_domain=DOMAIN)
        lists_lag(world)
        watched = WatchedRuns(world)
        serve(world)
        push(world, jobs=3, lasts=LONG)
        await asyncio.sleep(60)
        assert (len(watched.began), watched.most_members) == (1, 1)


async def test_the_next_holder_counts_members_that_are_not_listed_yet() -> None:
    async with a_set_world(settings_of(max=2)) as world:
        await with_pool(world, 4, trust_domain=DOMAIN)
        lists_lag(world)
        watched = WatchedRuns(world)
        first = serve(world)
        push(world, jobs=4, lasts=LONG)
        await asyncio.sleep(20)
        assert len(members(world)) == 2
        first.kill()
        serve(world, "web-2")
        await asyncio.sleep(90)
        assert session(world).holder == "web-2"
        assert (len(watched.began), watched.most_members) == (2, 2)


async def test_a_claim_whose_answer_was_lost_counts() -> None:
    """It may become a member, although the process that made it does not hold it."""
    async with a_set_world(settings_of(max=1)) as world:
        (id,) = await with_pool(world, 1, trust_domain=DOMAIN)
        lists_lag(world)
        supplier = await a_supplier(world, assigned=0)
        await supplier.turn()  # it knows all that was claimed before
        supplier._begin(1)
        faults(supplier._ports).fail_next("records.apply", Failure.LOST_ANSWER)
        await asyncio.gather(*supplier._bursts, return_exceptions=True)
        await supplier.turn()
        assert [one.id for one in supplier.members] == [id]


async def test_a_process_that_lost_its_set_engages_nothing() -> None:
    async with a_set_world() as world:
        ids = await with_pool(world, 2, trust_domain=DOMAIN)
        paused = await taken(world.ports())
        scale_set = (await world.ports().records.scale_sets())[SET]
        one, other = await claimed(world, *ids)
        fresh = await replaced(world)
        assert await engage(world.ports(), scale_set, one, paused) is None
        assert records(world, RUNNING) == []
        assert await engage(world.ports(), scale_set, other, fresh) is not None
        assert [found.id for found in members(world)] == [other.id]


async def test_a_process_that_paused_for_a_lease_claims_nothing_until_it_has_renewed_it() -> None:
    async with a_set_world() as world:
        await with_pool(world, 1, trust_domain=DOMAIN)
        supplier = await a_supplier(world, assigned=1)
        await asyncio.sleep(LEASE)
        burst = ClaimBurst(supplier._ports, world.settings, lambda: supplier._set, supplier._failing, supplier._record)
        assert await burst.run(1, lambda: None) == 0
        assert records(world, CLAIMED, RUNNING) == []
        await supplier._note(1)  # a write of the record that lands
        await burst.run(1, lambda: None)
        assert len(members(world)) == 1


async def test_of_claims_that_an_earlier_holder_left_no_more_are_engaged_than_the_set_may_have() -> None:
    """It may have had two for one place, of which it would have engaged one."""
    async with a_set_world(settings_of(max=1)) as world:
        first, second = await claimed(world, *await with_pool(world, 2, trust_domain=DOMAIN))
        lists_lag(world)  # they show both as claimed
        supplier = await a_supplier(world, assigned=2)
        for one in (second, first):
            world.agents[one.id].kill()
            assert await world.ports().signals.report(Signal(one.id, Kind.REG_OK, one.run_id, one.round, 1000))
            await supplier.turn()
        assert [one.id for one in members(world)] == [second.id]
