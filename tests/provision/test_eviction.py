"""A full pool makes room: idle instances above their class's idle target are ended for a run that needs their place."""

import asyncio
from typing import Any

import pytest

from bullpen.config import Limits, ResourceClass, Settings
from bullpen.errors import Unavailable
from bullpen.model.instance import IDLE, LIVE, RUNNING, TERMINATED
from bullpen.sim.world import World
from fixtures import a_world, ids, machines, provisioned, records, refreshed, released, requests, small, with_pool
from histories import SETTINGS, Actor, history, killed_everywhere, provisioning, provisions, releases


def full_at(cap: int, **classes: dict[str, Any]) -> Settings:
    """Classes `small` and `large`, and a pool of at most `cap`."""
    kinds: dict[str, dict[str, Any]] = {"small": {}, "large": {}} | classes
    return Settings(
        timings=SETTINGS.timings,
        limits=Limits(max_instances=cap),
        classes={name: ResourceClass(**{"cpu": 1, "mem": 1024, **changed}) for name, changed in kinds.items()},
    )


def states(world: World) -> dict[str, int]:
    """Live instances by class."""
    live = [one.resource_class for one in records(world, *LIVE)]
    return {name: live.count(name) for name in dict.fromkeys(live)}


async def test_a_full_pool_ends_idle_instances_of_another_class_for_a_run_that_needs_their_place() -> None:
    async with a_world(settings=full_at(3)) as world:
        await with_pool(world, 3, resource_class="large")
        outcome = await provisioned(world, "run", 2)
        assert outcome.succeeded, outcome.reason
        assert outcome.created == 2
        assert states(world) == {"small": 2, "large": 1}
        assert len(machines(world)) == 3


async def test_the_longest_idle_is_ended_first() -> None:
    async with a_world(settings=full_at(2)) as world:
        old = ids(await provisioned(world, "old", 1, resource_class="large"))
        young = ids(await provisioned(world, "young", 1, resource_class="large"))
        await released(world, "old")
        await asyncio.sleep(30)
        await released(world, "young")
        assert (await provisioned(world, "run", 1)).succeeded
        assert [one.id for one in records(world, TERMINATED)] == old
        assert [one.id for one in records(world, IDLE)] == young


async def test_none_is_ended_unless_that_makes_room_for_the_whole_request() -> None:
    async with a_world(settings=full_at(3)) as world:
        assert (await provisioned(world, "busy", 1, resource_class="large")).succeeded
        await with_pool(world, 2, resource_class="large")
        outcome = await provisioned(world, "run", 3)
        assert "limits.max-instances is 3; the total would be 6" in outcome.reason
        assert "in use: 2 large idle, 1 large running" in outcome.reason
        assert len(records(world, IDLE)) == 2


async def test_an_instance_that_its_idle_target_needs_is_not_ended() -> None:
    async with a_world(settings=full_at(3, large={"idle_target": 2})) as world:
        await with_pool(world, 3, resource_class="large")
        assert (await provisioned(world, "one", 1)).succeeded
        outcome = await provisioned(world, "two", 1)
        assert "limits.max-instances is 3; the total would be 4" in outcome.reason
        assert len(records(world, IDLE)) == 2


async def test_an_instance_that_is_being_cleaned_or_at_work_is_not_evicted() -> None:
    async with a_world(settings=full_at(2)) as world:
        await provisioned(world, "busy", 2, resource_class="large")
        assert not (await provisioned(world, "run", 1)).succeeded
        cleaning = asyncio.create_task(released(world, "busy"))
        await asyncio.sleep(0.01)
        assert len([one for one in records(world, IDLE) if not one.attested]) == 2
        assert not (await provisioned(world, "run", 1)).succeeded
        await cleaning
        assert (await provisioned(world, "run", 1)).succeeded


async def test_a_full_class_ends_its_own_idle_ones_that_do_not_fit_and_none_of_another_class() -> None:
    async with a_world(settings=full_at(9, small={"max_instances": 2})) as world:
        await with_pool(world, 3, resource_class="large")
        await with_pool(world, 2, trust_domain="team-a")
        outcome = await provisioned(world, "run", 1, trust_domain="team-b")
        assert outcome.created == 1
        assert states(world) == {"large": 3, "small": 2}


async def test_a_full_class_is_not_helped_by_idle_ones_of_another() -> None:
    async with a_world(settings=full_at(9, small={"max_instances": 2})) as world:
        await with_pool(world, 3, resource_class="large")
        assert (await provisioned(world, "busy", 2)).succeeded
        outcome = await provisioned(world, "run", 1)
        assert "classes.small.max-instances is 2; the total would be 3" in outcome.reason
        assert states(world) == {"large": 3, "small": 2}


async def test_where_both_caps_are_reached_one_end_may_serve_both() -> None:
    async with a_world(settings=full_at(3, small={"max_instances": 2})) as world:
        await with_pool(world, 1, resource_class="large")
        await with_pool(world, 2, trust_domain="team-a")
        assert (await provisioned(world, "run", 1, trust_domain="team-b")).created == 1
        assert states(world) == {"large": 1, "small": 2}


async def test_idle_ones_that_fit_are_used_and_only_the_rest_is_made_room_for() -> None:
    async with a_world(settings=full_at(3)) as world:
        await with_pool(world, 2, resource_class="large")
        (fitting,) = await with_pool(world, 1)
        outcome = await provisioned(world, "run", 2)
        assert (outcome.selected, outcome.created) == (1, 1)
        assert fitting in ids(outcome)
        assert states(world) == {"large": 1, "small": 2}


async def test_two_that_make_room_at_once_pass_no_cap_and_end_no_more_than_they_need() -> None:
    async with a_world(settings=full_at(4)) as world:
        await with_pool(world, 4, resource_class="large")
        both = await asyncio.gather(provisioned(world, "one", 1), provisioned(world, "two", 2))
        assert [outcome.succeeded for outcome in both] == [True, True]
        assert states(world) == {"large": 1, "small": 3}
        assert len(machines(world)) == 4


async def test_an_index_that_still_shows_the_ended_ones_does_not_make_it_end_more() -> None:
    async with a_world(settings=full_at(3), index_lag=2.0) as world:
        await provisioned(world, "before", 3, resource_class="large")
        await asyncio.sleep(5)
        await released(world, "before")
        await asyncio.sleep(5)
        assert (await provisioned(world, "run", 2)).succeeded
        assert len(records(world, TERMINATED)) == 2
        assert len(machines(world)) == 3


async def test_a_claim_that_is_faster_keeps_its_instance() -> None:
    async with a_world(settings=full_at(2)) as world:
        await with_pool(world, 2, resource_class="large")
        ports = world.ports()
        apply_each = ports.records.apply_each

        async def overtaken(changes: Any) -> Any:
            if any(change.step == "expire" for change in changes):
                ports.records.apply_each = apply_each  # type: ignore[method-assign]
                assert (await provisioned(world, "faster", 1, resource_class="large")).selected == 1
            return await apply_each(changes)

        ports.records.apply_each = overtaken  # type: ignore[method-assign]
        outcome = await provisioned(world, "run", 1, ports)
        assert outcome.succeeded, outcome.reason
        assert {one.run_id for one in records(world, RUNNING)} == {"faster", "run"}
        assert len(records(world, TERMINATED)) == 1


async def test_the_story_of_an_evicted_instance_names_the_provision() -> None:
    async with a_world(settings=full_at(1)) as world:
        (ended,) = await with_pool(world, 1, resource_class="large")
        outcome = await provisioned(world, "run", 1)
        line = world.memory.tables.stories[ended][-2]
        assert line.step == "expire"
        assert outcome.provision_id in line.why
        assert "limits.max-instances is 1" in line.why


async def test_warming_the_pool_ends_nothing_to_make_room() -> None:
    async with a_world(settings=full_at(2)) as world:
        pool = await with_pool(world, 2, resource_class="large")
        world.settings = full_at(2, small={"idle_target": 1})
        await refreshed(world)
        assert machines(world) == pool


async def test_below_the_caps_no_instance_is_read() -> None:
    async with a_world(settings=full_at(3)) as world:
        await with_pool(world, 1, resource_class="large")
        ports = world.ports()
        assert (await provisioned(world, "run", 2, ports)).succeeded
        assert requests(ports)["records.live"] == 0


async def test_an_engine_that_does_not_answer_the_termination_leaves_a_debt_and_fails_the_provision() -> None:
    async with a_world(settings=full_at(1)) as world:
        (ended,) = await with_pool(world, 1, resource_class="large")
        ports = world.ports()

        async def terminate(chosen: Any) -> list[str]:
            raise Unavailable("no answer")

        ports.compute.terminate = terminate  # type: ignore[method-assign, assignment]
        outcome = await provisioned(world, "run", 1, ports)
        assert not outcome.succeeded
        (record,) = [one for one in records(world, TERMINATED) if one.id == ended]
        assert record.owes is not None
        await asyncio.sleep(10)
        assert (await provisioned(world, "next", 1)).succeeded
        assert ended not in machines(world)


async def large_ones_are_idle(world: World) -> None:
    ports = world.ports()
    assert (await provisions(world, ports, "before", 2, resource_class="large")).succeeded
    await releases(world, ports, "before")


@pytest.mark.slow
@pytest.mark.parametrize("rivals", [0, 1])
def test_a_provision_killed_while_it_makes_room_loses_nothing(rivals: int) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        victim = Actor("victim", provisioning("run", 2), die_at=step)
        others = [Actor("rival", provisioning("rival", 1), begins_at=0.05)] * rivals
        want = {"run": 2, "rival": 1}
        world = lambda: World(settings=full_at(2))  # noqa: E731
        return victim, history([victim, *others], want, before=large_ones_are_idle, world=world)

    assert killed_everywhere(play, stride=1 + rivals) > 50


async def test_an_instance_past_its_threshold_fills_no_idle_target() -> None:
    """No run can claim it, so it must not keep the cap full until the next refresh."""
    async with a_world(settings=small(idle_target=1, max_instances=1)) as world:
        (late,) = await with_pool(world, 1)
        await asyncio.sleep(world.settings.timings.idle + 1)
        outcome = await provisioned(world, "run", 1)
        assert outcome.created == 1, outcome.reason
        assert late not in machines(world)


async def test_a_wrong_clock_evicts_none_that_fills_an_idle_target() -> None:
    async with a_world(settings=small(idle_target=1, max_instances=1)) as world:
        pool = await with_pool(world, 1)
        outcome = await provisioned(world, "run", 1, world.ports(skew=3600.0))
        assert not outcome.succeeded
        assert machines(world) == pool
