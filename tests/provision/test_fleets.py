"""The cause of a short fleet decides what follows. Every try has its own token; a provision is all or nothing."""

import asyncio
from typing import Any

import pytest

from bullpen.engines.memory.compute import NO_CAPACITY
from bullpen.errors import ConfigError, InsufficientCapacity, PermissionDenied, Refused, Throttled, Unavailable
from bullpen.model.fleet import Cause, FleetAnswer, FleetError, FleetPlan, LaunchedMachine
from bullpen.model.instance import CREATED, IDLE, RUNNING
from bullpen.model.provision import ABORTED, COMMITTED, FleetState
from bullpen.model.ticket import UsageClass
from bullpen.refresh import Hindered
from bullpen.sim.world import World
from fixtures import Failure, a_world, faults, ids, machines, now, provisioned, records, refreshed, requests, small

THROTTLED = FleetError("RequestLimitExceeded", "slow down", Cause.THROTTLE, "wait a little")
NONE_LEFT = FleetError(NO_CAPACITY, "none left", Cause.CAPACITY)
FINAL = {
    Cause.QUOTA: FleetError("VcpuLimitExceeded", "32 vCPUs", Cause.QUOTA, "ask for a higher quota"),
    Cause.PERMISSION: FleetError("UnauthorizedOperation", "not you", Cause.PERMISSION, "allow the call"),
    Cause.CONFIGURATION: FleetError("InvalidAMIID.NotFound", "no ami-1", Cause.CONFIGURATION, "correct aws.image"),
}
SPOT = UsageClass.SPOT


def tokens(world: World) -> list[str]:
    return list(world.memory.yard.answers)


def fleets(world: World) -> list[tuple[int, FleetState]]:
    """Of the last provision."""
    *_, record = world.memory.tables.provisions.values()
    return [(fleet.count, fleet.state) for fleet in record.fleets]


def usages(world: World) -> list[str]:
    return [member.usage_class for member in world.memory.yard.machines.values()]


async def test_a_throttled_fleet_is_asked_for_again_after_a_while_for_what_is_missing() -> None:
    async with a_world() as world:
        world.memory.yard.troubles.append((1, THROTTLED))
        began = now()
        outcome = await provisioned(world, "run", 3)
        assert outcome.succeeded, outcome.reason
        assert fleets(world) == [(1, FleetState.ANSWERED), (2, FleetState.ANSWERED)]
        assert len(set(tokens(world))) == 2
        assert machines(world) == ids(outcome)
        assert now() - began > 0.5


async def test_throttling_without_end_is_given_up_and_everything_given_back() -> None:
    async with a_world() as world:
        world.memory.yard.troubles.extend([(1, THROTTLED)] * 20)
        outcome = await provisioned(world, "run", 9)
        assert not outcome.succeeded
        assert "RequestLimitExceeded: slow down" in outcome.reason
        assert len(tokens(world)) == 5
        assert machines(world) == []
        assert records(world, CREATED, RUNNING) == []


@pytest.mark.parametrize("cause", FINAL)
async def test_what_only_an_operator_can_fix_fails_at_once_with_cause_and_remedy(cause: Cause) -> None:
    async with a_world(settings=small(attempts=5, spot_fallback=True)) as world:
        world.memory.yard.troubles.append((2, FINAL[cause]))
        outcome = await provisioned(world, "run", 3, usage_class=SPOT)
        assert not outcome.succeeded
        assert FINAL[cause].message in outcome.reason
        assert FINAL[cause].remedy in f"{outcome.reason} {outcome.remedy}"
        assert len(tokens(world)) == 1
        assert machines(world) == []


async def test_no_capacity_fails_at_once_unless_the_class_says_otherwise() -> None:
    async with a_world(settings=small()) as world:
        world.memory.yard.troubles.append((2, NONE_LEFT))
        outcome = await provisioned(world, "run", 3, usage_class=SPOT)
        assert not outcome.succeeded
        assert "none left" in outcome.reason
        assert len(tokens(world)) == 1
        assert machines(world) == []


async def test_spot_without_capacity_is_replaced_on_demand_where_the_class_allows_it() -> None:
    async with a_world(settings=small(spot_fallback=True)) as world:
        world.memory.yard.troubles.append((2, NONE_LEFT))
        outcome = await provisioned(world, "run", 3, usage_class=SPOT)
        assert outcome.succeeded, outcome.reason
        assert sorted(usages(world)) == ["on-demand", "spot", "spot"]
        assert len(set(tokens(world))) == 2


async def test_on_demand_has_nothing_to_fall_back_to() -> None:
    async with a_world(settings=small(spot_fallback=True)) as world:
        world.memory.yard.troubles.append((2, NONE_LEFT))
        assert not (await provisioned(world, "run", 3)).succeeded
        assert len(tokens(world)) == 1


async def test_a_class_with_attempts_asks_for_the_missing_again() -> None:
    async with a_world(settings=small(attempts=3)) as world:
        world.memory.yard.troubles.extend([(1, NONE_LEFT), (1, NONE_LEFT)])
        outcome = await provisioned(world, "run", 4)
        assert outcome.succeeded, outcome.reason
        assert [count for count, _ in fleets(world)] == [1, 1, 2]


async def test_attempts_are_counted_and_what_all_of_them_launched_is_given_back() -> None:
    async with a_world(settings=small(attempts=3)) as world:
        world.memory.yard.troubles.extend([(1, NONE_LEFT)] * 9)
        outcome = await provisioned(world, "run", 9)
        assert not outcome.succeeded
        assert len(tokens(world)) == 3
        assert machines(world) == []
        assert len(outcome.discarded) == 3


async def test_capacity_refused_by_an_error_is_tried_again_like_a_short_answer() -> None:
    async with a_world(settings=small(attempts=2, max_instances=3)) as world:
        world.memory.yard.troubles.append((0, InsufficientCapacity("EC2 CreateFleet: none")))
        outcome = await provisioned(world, "run", 3)  # the refused fleet does not count against the cap
        assert outcome.succeeded, outcome.reason
        assert fleets(world) == [(0, FleetState.ANSWERED), (3, FleetState.ANSWERED)]


@pytest.mark.parametrize(
    "refusal",
    [Refused("quota", remedy="ask"), PermissionDenied("no", remedy="allow"), ConfigError("bad", remedy="mend")],
)
async def test_an_engine_that_says_no_is_not_asked_again(refusal: Refused) -> None:
    async with a_world(settings=small(attempts=5)) as world:
        world.memory.yard.troubles.append((0, refusal))
        ports = world.ports()
        outcome = await provisioned(world, "run", 2, ports)
        assert not outcome.succeeded
        assert str(refusal) in outcome.reason
        assert requests(ports)["compute.create_fleet"] == 1


async def test_a_lost_answer_is_asked_for_again_with_the_same_token_and_launches_nothing_twice() -> None:
    async with a_world() as world:
        ports = world.ports()
        faults(ports).fail_next("compute.create_fleet", Failure.LOST_ANSWER, Failure.LOST_REQUEST, Failure.THROTTLED)
        outcome = await provisioned(world, "run", 2, ports)
        assert outcome.succeeded, outcome.reason
        assert len(tokens(world)) == 1
        assert machines(world) == ids(outcome)


async def test_an_engine_that_never_answers_is_given_up() -> None:
    async with a_world() as world:
        ports = world.ports()
        faults(ports).fail_next("compute.create_fleet", *[Failure.LOST_REQUEST] * 20)
        assert not (await provisioned(world, "run", 2, ports)).succeeded
        assert requests(ports)["compute.create_fleet"] == 4


async def test_every_try_has_its_token_written_before_it_is_made() -> None:
    async with a_world(settings=small(attempts=4)) as world:
        world.memory.yard.troubles.extend([(1, NONE_LEFT), (1, THROTTLED), (0, NONE_LEFT)])
        launch = world.memory.yard.on_launch
        unwritten: list[str] = []

        def watched(machine: LaunchedMachine, plan: FleetPlan) -> None:
            record = world.memory.tables.provisions[plan.provision_id]
            states = {fleet.client_token: fleet.state for fleet in record.fleets}
            if states.get(plan.client_token) is not FleetState.PLANNED:
                unwritten.append(plan.client_token)
            launch(machine, plan)

        world.memory.yard.on_launch = watched
        assert (await provisioned(world, "run", 5)).succeeded
        assert len(tokens(world)) == 4
        assert unwritten == []


async def test_a_stop_while_a_further_fleet_is_awaited_is_answered_at_once() -> None:
    async with a_world() as world:
        world.memory.yard.troubles.extend([(1, THROTTLED)] * 20)
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(5.0, stop.set)
        began = now()
        outcome = await provisioned(world, "run", 9, stop=stop)
        assert outcome.interrupted
        assert now() - began < 5.5
        asked = len(tokens(world))
        await asyncio.sleep(60)
        assert len(tokens(world)) == asked


async def test_fewer_are_kept_where_fewer_are_acceptable_however_many_tries_they_took() -> None:
    async with a_world(settings=small(attempts=2)) as world:
        world.memory.yard.troubles.extend([(1, NONE_LEFT), (1, FINAL[Cause.QUOTA])])
        outcome = await provisioned(world, "run", 5, allow_partial=True)
        assert outcome.succeeded, outcome.reason
        assert len(outcome.members) == 2
        assert machines(world) == ids(outcome)


async def test_a_run_that_names_no_types_gets_those_that_its_class_allows() -> None:
    async with a_world(settings=small(allowed_instance_types=("*.large",))) as world:
        await provisioned(world, "run", 1)
        assert [one.instance_type for one in world.memory.yard.machines.values()] == ["sim.large"]


async def test_a_run_may_name_fewer_types_than_its_class_allows_and_no_others() -> None:
    async with a_world(settings=small(allowed_instance_types=("sim.*", "*.metal"))) as world:
        await provisioned(world, "run", 1, allowed_types=("sim.medium", "SIM.l*"))
        assert [one.instance_type for one in world.memory.yard.machines.values()] == ["sim.medium"]
        for wider in (("*.medium",), ("s*",), ("sim.medium", "other.large")):
            with pytest.raises(ConfigError, match=r"exceeds class small, which allows sim\.\* \*\.metal"):
                await provisioned(world, "other", 1, allowed_types=wider)
        assert len(machines(world)) == 1


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Unavailable("no answer"), "no answer; a fleet may still have launched"),
        (Throttled("too often", retry_after=1.0), "too often"),
    ],
)
async def test_an_engine_that_stays_away_is_a_reason_to_try_again_and_says_what_may_be_left(
    error: Unavailable, says: str
) -> None:
    async with a_world() as world:
        ports = world.ports()

        async def create_fleet(plan: object) -> FleetAnswer:
            raise error

        ports.compute.create_fleet = create_fleet  # type: ignore[method-assign]
        outcome = await provisioned(world, "run", 1, ports)
        assert outcome.reason == says
        assert outcome.exit_code == 75
        assert ("bullpen refresh" in outcome.remedy) == ("launched" in says)


async def test_refresh_warms_with_what_a_throttled_and_a_further_fleet_gave() -> None:
    async with a_world(settings=small(idle_target=3)) as world:
        world.memory.yard.troubles.append((1, THROTTLED))
        await refreshed(world)
        await asyncio.sleep(30)
        await refreshed(world)
        assert len(machines(world)) == 3
        assert len(records(world, IDLE)) == 3


@pytest.mark.parametrize("cause", FINAL)
async def test_refresh_raises_what_only_an_operator_can_fix_and_keeps_what_it_got(cause: Cause) -> None:
    async with a_world(settings=small(idle_target=3)) as world:
        world.memory.yard.troubles.extend([(1, FINAL[cause]), (0, FINAL[cause])])
        states: list[Any] = []
        for _ in range(2):
            with pytest.raises(Hindered, match=FINAL[cause].message):
                await refreshed(world)
            *_, record = world.memory.tables.provisions.values()
            states.append(record.state)
        assert states == [COMMITTED, ABORTED]
        assert len(machines(world)) == 1


async def test_refresh_leaves_a_passing_shortage_to_the_next_refresh() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        world.memory.yard.troubles.extend([(0, NONE_LEFT), *[(0, THROTTLED)] * 5])
        await refreshed(world)
        await refreshed(world)
        assert machines(world) == []
        await refreshed(world)
        assert len(machines(world)) == 2


async def test_refresh_does_not_hide_settings_that_the_engine_refuses_behind_a_launch_left_open() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        world.memory.yard.troubles.extend([(0, ConfigError("aws.image is wrong"))] * 2)
        for _ in range(2):
            with pytest.raises(Hindered, match="image is wrong") as caught:
                await refreshed(world)
            assert caught.value.exit_code == ConfigError.exit_code
        assert {one.state for one in world.memory.tables.provisions.values()} == {ABORTED}


async def test_machines_that_a_short_fleet_still_requests_count_as_under_way() -> None:
    async with a_world(settings=small(idle_target=3)) as world:
        world.memory.yard.troubles.extend([(1, THROTTLED), (1, THROTTLED)])
        first = asyncio.create_task(refreshed(world))
        await asyncio.sleep(0.4)  # one is launched, and the rest waits to be asked for again
        assert len(machines(world)) == 1
        await refreshed(world)
        await first
        assert len(machines(world)) == 3
