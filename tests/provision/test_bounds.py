"""Which runs an instance may serve, and how far the pool may grow: trust domains, image generations, limits."""

import asyncio

from bullpen.config import Limits, Settings, Trust
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.model.instance import RUNNING, State
from fixtures import a_world, ids, machines, now, provisioned, records, small, with_pool


async def test_beyond_the_pools_limit_provision_fails_at_once_and_names_the_limit() -> None:
    async with a_world(settings=Settings(limits=Limits(max_instances=3))) as world:
        outcome = await provisioned(world, "run", 4)
        assert "limits.max-instances is 3" in outcome.reason
        assert now() < 1
        assert machines(world) == []


async def test_beyond_a_classs_limit_provision_fails_at_once_and_names_the_limit() -> None:
    async with a_world(settings=small(max_instances=3)) as world:
        assert (await provisioned(world, "one", 2)).succeeded
        outcome = await provisioned(world, "two", 2)
        assert "classes.small.max-instances is 3" in outcome.reason
        assert len(machines(world)) == 2


async def test_two_that_race_at_the_limit_do_not_pass_it_together() -> None:
    async with a_world(settings=small(max_instances=3)) as world:
        await asyncio.gather(provisioned(world, "one", 2), provisioned(world, "two", 2))
        assert len(machines(world)) <= 3


async def test_a_machine_that_is_registered_while_another_provision_counts_is_not_missed() -> None:
    async with a_world(settings=small(max_instances=1)) as world:
        slow, counting = world.ports(), world.ports()
        create, count, has_counted = slow.compute.create_fleet, counting.records.count, asyncio.Event()

        async def create_later(plan: FleetPlan) -> FleetAnswer:
            await has_counted.wait()
            return await create(plan)

        async def count_before() -> dict[tuple[str, State], int]:
            found = await count()
            has_counted.set()
            await asyncio.sleep(1)
            return found

        slow.compute.create_fleet = create_later  # type: ignore[method-assign]
        counting.records.count = count_before  # type: ignore[method-assign]
        first = asyncio.create_task(provisioned(world, "one", 1, slow))
        await asyncio.sleep(1)
        second = await provisioned(world, "two", 1, counting)
        assert ((await first).succeeded, second.succeeded) == (True, False)
        assert len(machines(world)) == 1


async def test_no_single_provision_passes_a_limit_however_far_the_indexes_are_behind() -> None:
    async with a_world(settings=small(max_instances=3), index_lag=3600.0) as world:
        outcome = await provisioned(world, "run", 4)
        assert "classes.small.max-instances is 3" in outcome.reason
        assert machines(world) == []


async def test_a_burst_passes_a_limit_by_no_more_than_it_asked_for_within_the_lag() -> None:
    lag = 1.5
    async with a_world(settings=small(max_instances=3), index_lag=lag) as world:
        burst = await asyncio.gather(*(provisioned(world, f"run-{number}", 3) for number in range(3)))
        assert [outcome.succeeded for outcome in burst] == [True] * 3, "the limits are exact: say so in operating.md"
        await asyncio.sleep(lag)
        late = await provisioned(world, "late", 1)
        assert "classes.small.max-instances is 3; the total would be 10" in late.reason
        assert len(machines(world)) == 9


async def test_instances_of_the_pool_may_be_used_at_the_limit() -> None:
    async with a_world(settings=small(max_instances=2)) as world:
        pool = await with_pool(world, 2)
        assert ids(await provisioned(world, "run", 2)) == pool


async def test_more_than_fit_into_one_fleet_come_in_several() -> None:
    async with a_world(settings=Settings(limits=Limits(max_instances=150))) as world:
        outcome = await provisioned(world, "run", 120)
        assert len(outcome.members) == len(machines(world)) == 120
        assert len(world.memory.yard.answers) == 2


async def test_a_used_instance_serves_only_its_trust_domain() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 1, trust_domain="team-a")
        other = await provisioned(world, "run", 1, trust_domain="team-b")
        assert other.created == 1
        assert ids(await provisioned(world, "again", 1, trust_domain="team-a")) == pool


async def test_a_trust_domain_that_inherits_takes_over_used_instances() -> None:
    settings = Settings(trust=Trust(inherits={"release": ("main",)}))
    async with a_world(settings=settings) as world:
        pool = await with_pool(world, 1, trust_domain="main")
        assert ids(await provisioned(world, "run", 1, trust_domain="release")) == pool
        (one,) = records(world, RUNNING)
        assert one.trust_domain == "release"


async def test_inheritance_of_a_trust_domain_goes_one_way() -> None:
    settings = Settings(trust=Trust(inherits={"release": ("main",)}))
    async with a_world(settings=settings) as world:
        await with_pool(world, 1, trust_domain="release")
        assert (await provisioned(world, "run", 1, trust_domain="main")).created == 1


async def test_an_instance_of_an_older_image_is_not_selected() -> None:
    async with a_world(settings=small()) as world:
        await with_pool(world, 1)
        world.settings = small(image_generation=2)
        outcome = await provisioned(world, "run", 1)
        assert (outcome.selected, outcome.created) == (0, 1)
