"""A member is lost between the provision's commit and its own write: the answer still counts what runs."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from bullpen import jobs
from bullpen.config import Settings, Timings
from bullpen.down import down
from bullpen.errors import InsufficientCapacity, Unavailable
from bullpen.jobs.request import JobRequest
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.model.instance import IDLE, RUNNING, Instance, InstanceFate
from bullpen.model.job import Result
from bullpen.model.provision import ABORTED, COMMITTED, Provision
from bullpen.model.transition import Change
from bullpen.pool import lifecycle
from bullpen.ports import Ports
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import (
    Failure,
    a_world,
    begin_job,
    end_job,
    faults,
    ids,
    machines,
    mute,
    now,
    on_github,
    provisioned,
    records,
    refreshed,
    released,
    small,
    steps,
    with_pool,
)
from provision.test_waiting import a_pool, waits

Loss = Callable[[World, list[Instance]], Coroutine[Any, Any, object]]


def lost_in_commit(world: World, ports: Ports, loss: Loss, times: int = 1) -> None:
    """Something happens to members just before their own commits are written, this many times."""
    apply_each, left = ports.records.apply_each, [times]

    async def raced(changes: Sequence[Change[Any]]) -> list[Any]:
        members = [c.before for c in changes if c.step == "commit" and isinstance(c.before, Instance)]
        if members and left[0]:
            left[0] -= 1
            await loss(world, members)
        return await apply_each(changes)

    ports.records.apply_each = raced  # type: ignore[method-assign]


async def ends_the_first(world: World, members: list[Instance]) -> None:
    await lifecycle.expire_and_terminate(world.ports(), world.settings, members[:1], "its worker is lost", by="a test")


async def ends_all(world: World, members: list[Instance]) -> None:
    await lifecycle.expire_and_terminate(world.ports(), world.settings, members, "the pool is taken down", by="a test")


async def ends_the_first_and_all_capacity(world: World, members: list[Instance]) -> None:
    world.memory.yard.capacity = 0
    await ends_the_first(world, members)


async def is_released(world: World, members: list[Instance]) -> None:
    await released(world, "run")


async def is_carried_out_by_another(world: World, members: list[Instance]) -> None:
    decided = world.memory.tables.provisions[members[0].provision_id]
    await lifecycle.carry_out(world.ports(), world.settings, decided, members, by="another process")


async def taken_down(world: World, members: list[Instance]) -> None:
    await down(world.ports(), world.settings)


def running(world: World) -> list[str]:
    return [one.id for one in records(world, RUNNING)]


def of_run(world: World, run_id: str = "run") -> list[Provision]:
    return [one for one in world.memory.tables.provisions.values() if one.run_id == run_id]


@pytest.mark.parametrize("pool", [0, 2, 3, 4])
@pytest.mark.parametrize("loss", [ends_the_first, ends_all])
async def test_a_member_lost_in_the_commit_is_replaced_in_the_same_call(pool: int, loss: Loss) -> None:
    async with a_world() as world:
        if pool:
            await with_pool(world, pool)
        ports = world.ports()
        lost_in_commit(world, ports, loss)
        outcome = await provisioned(world, "run", 3, ports)
        assert outcome.succeeded, outcome.reason
        assert ids(outcome) == running(world)
        assert len(ids(outcome)) == 3
        assert {one.instance.state for one in outcome.members} == {RUNNING}
        assert outcome.selected + outcome.created == 3
        assert {(d.reason, d.outcome) for d in outcome.discarded} == {
            ("ended before its commit was carried out", InstanceFate.TERMINATED)
        }


async def test_members_are_replaced_as_often_as_they_are_lost() -> None:
    async with a_world() as world:
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first, times=3)
        outcome = await provisioned(world, "run", 3, ports)
        assert ids(outcome) == running(world) == machines(world)
        assert [one.want for one in of_run(world)] == [3, 1, 1, 1]
        assert {one.state for one in of_run(world)} == {COMMITTED}


async def test_the_origin_of_each_member_is_reported_although_one_was_replaced() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first)
        outcome = await provisioned(world, "run", 2, ports)
        assert (outcome.selected, outcome.created) == (1, 1)


async def test_if_a_member_cannot_be_replaced_the_others_are_given_back_and_the_call_fails_with_the_reason() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first_and_all_capacity)
        outcome = await provisioned(world, "run", 3, ports)
        assert "the machine could not be launched" in outcome.reason
        assert outcome.exit_code == 1
        assert outcome.members == outcome.held == ()
        assert running(world) == []
        gone = {one.instance_id: one.outcome for one in outcome.discarded}
        assert sorted(gone) == pool
        assert sorted(gone.values()) == [InstanceFate.OFFERED, InstanceFate.OFFERED, InstanceFate.TERMINATED]
        assert [one.is_claimable for one in records(world, IDLE)] == [True, True]
        assert all(one.is_closed for one in of_run(world))
        assert [one.state for one in of_run(world)] == [COMMITTED, ABORTED]


async def test_instances_that_served_the_run_before_the_call_stay() -> None:
    async with a_world() as world:
        first = await provisioned(world, "run", 2)
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first_and_all_capacity)
        outcome = await provisioned(world, "run", 4, ports)
        assert not outcome.succeeded
        assert outcome.members == ()
        assert sorted(one.instance.id for one in outcome.held) == ids(first) == running(world)


async def test_the_jobs_of_a_run_outlive_a_call_that_was_given_back() -> None:
    async with a_world() as world:
        first = await provisioned(world, "run", 1)
        wanted = [JobRequest("run", ("sleep", "100"), name=f"job-{n}", index=n) for n in range(3)]
        submitted = await jobs.submit(world.ports(), wanted, by="a test")
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first_and_all_capacity)
        assert not (await provisioned(world, "run", 3, ports)).succeeded
        await refreshed(world)
        left = [world.memory.tables.jobs[job.id] for job in submitted]
        assert [job.result for job in left] == [Result.NONE] * 3
        assert len(running(world)) == 2, "the one that has a job of the run is left to it"
        await asyncio.sleep(300)
        await refreshed(world)
        await asyncio.sleep(30)
        await refreshed(world)
        assert {world.memory.tables.jobs[job.id].result for job in submitted} == {Result.SUCCEEDED}
        assert running(world) == ids(first)


async def test_fewer_are_an_answer_where_fewer_are_acceptable() -> None:
    async with a_world() as world:
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first_and_all_capacity)
        outcome = await provisioned(world, "run", 3, ports, allow_partial=True)
        assert outcome.succeeded, outcome.reason
        assert len(ids(outcome)) == 2
        assert ids(outcome) == running(world)


async def test_none_at_all_is_a_failure_even_where_fewer_are_acceptable() -> None:
    async with a_world() as world:
        ports = world.ports()

        async def ends_everything(world: World, members: list[Instance]) -> None:
            world.memory.yard.capacity = 0
            await ends_all(world, members)

        lost_in_commit(world, ports, ends_everything)
        outcome = await provisioned(world, "run", 2, ports, allow_partial=True)
        assert not outcome.succeeded
        assert "none of 2 machines" in outcome.reason


async def test_as_many_as_before_are_an_answer_where_fewer_are_acceptable_and_no_more_can_be_launched() -> None:
    async with a_world(capacity=3) as world:
        first = await provisioned(world, "run", 5, allow_partial=True)
        again = await provisioned(world, "run", 5, allow_partial=True)
        assert again.succeeded, again.reason
        assert ids(again) == ids(first) == running(world)


async def test_a_run_that_is_released_meanwhile_gets_no_more_instances() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        ports = world.ports()
        lost_in_commit(world, ports, is_released)
        outcome = await provisioned(world, "run", 3, ports)
        assert not outcome.succeeded
        assert "was released" in outcome.reason
        assert running(world) == []
        assert len(world.memory.yard.answers) == 2, "no further fleet"


async def test_a_pool_that_is_taken_down_meanwhile_leaves_nothing_claimed() -> None:
    async with a_world() as world:
        ports = world.ports()
        lost_in_commit(world, ports, taken_down)
        outcome = await provisioned(world, "run", 2, ports)
        assert ids(outcome) == running(world) == machines(world)


async def test_a_commit_that_another_process_carries_out_is_met() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        ports = world.ports()
        lost_in_commit(world, ports, is_carried_out_by_another)
        assert ids(await provisioned(world, "run", 2, ports)) == pool == running(world)
        assert len(of_run(world)) == 1


async def test_a_commit_whose_answer_was_lost_counts_what_runs_too() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first)
        write = ports.records.apply

        async def lost(*changes: Change[Any], **options: Any) -> list[Any]:
            landed = await write(*changes, **options)
            if any(isinstance(c.before, Provision) and c.step == "commit" for c in changes):
                ports.records.apply = write  # type: ignore[method-assign]
                faults(ports).fail_next("records.apply", Failure.LOST_REQUEST)
                await write(*changes, **options)
            return landed

        ports.records.apply = lost  # type: ignore[method-assign]
        outcome = await provisioned(world, "run", 2, ports)
        assert outcome.succeeded, outcome.reason
        assert ids(outcome) == running(world)
        assert len(ids(outcome)) == 2


async def test_the_replacement_has_the_deadline_of_the_call() -> None:
    settings = small(Timings(provision=60.0, validation=50.0))
    async with a_world(settings=settings, temper=lambda n: Temper(boots_in=1.0 if n < 2 else 1e6)) as world:
        ports = world.ports()

        async def late(world: World, members: list[Instance]) -> None:
            await asyncio.sleep(40.0)
            await ends_the_first(world, members)

        lost_in_commit(world, ports, late)
        outcome = await provisioned(world, "run", 2, ports)
        assert not outcome.succeeded
        assert now() == pytest.approx(60.0, abs=5.0)
        assert running(world) == []


async def test_a_stop_while_it_is_replaced_gives_everything_back() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=1.0 if n < 2 else 1e6)) as world:
        ports, stop = world.ports(), asyncio.Event()
        lost_in_commit(world, ports, ends_the_first)
        asyncio.get_running_loop().call_later(20.0, stop.set)
        outcome = await provisioned(world, "run", 2, ports, stop)
        assert outcome.interrupted
        assert now() < 26
        assert running(world) == []
        await asyncio.sleep(20)
        await refreshed(world)
        assert all(one.is_closed for one in of_run(world))


@pytest.mark.slow
async def test_a_second_call_for_the_run_at_the_same_time_gets_the_same_instances() -> None:
    for round in range(20):
        async with a_world(seed=round) as world:
            ports = world.ports()
            lost_in_commit(world, ports, ends_the_first)

            async def second(after: float, world: World = world) -> Any:
                await asyncio.sleep(after)
                return await provisioned(world, "run", 3)

            one, other = await asyncio.gather(provisioned(world, "run", 3, ports), second(round * 0.3))
            assert one.succeeded, one.reason
            assert other.succeeded, other.reason
            assert ids(one) == ids(other) == running(world), f"{round}"


async def test_a_member_that_got_a_job_is_left_to_it_when_the_call_is_given_back() -> None:
    async with a_world(settings=on_github()) as world:
        ports = world.ports()

        async def begins(world: World, members: list[Instance]) -> None:
            begin_job(world, members[1].id)
            await ends_the_first_and_all_capacity(world, members)

        lost_in_commit(world, ports, begins)
        outcome = await provisioned(world, "4711", 2, ports)
        assert not outcome.succeeded
        (busy,) = running(world)
        assert {one.instance_id: one.outcome for one in outcome.discarded}[busy] is InstanceFate.BUSY
        end_job(world, busy)
        await asyncio.sleep(20)
        await refreshed(world)
        await asyncio.sleep(20)
        await refreshed(world)
        assert world.memory.tables.instances[busy].is_claimable


async def test_a_call_that_loses_no_member_costs_no_more_requests() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        outcome = await provisioned(world, "run", 2)
        assert steps(world, outcome.provision_id) == ["open_", "commit", "settle_committed"]
        assert len(of_run(world)) == 1


@pytest.mark.parametrize("settings", [small(), on_github()], ids=["", "on GitHub"])
async def test_a_member_that_dies_while_another_is_replaced_is_replaced_too(settings: Settings) -> None:
    async with a_world(settings=settings) as world:
        pool = await with_pool(world, 3)
        ports = world.ports()

        async def dies(world: World, members: list[Instance]) -> None:
            await ends_the_first(world, members)
            mute(world, [members[1].id])
            await asyncio.sleep(20.0)

        lost_in_commit(world, ports, dies)
        outcome = await provisioned(world, "run", 3, ports)
        assert outcome.succeeded, outcome.reason
        assert len(ids(outcome)) == 3
        assert len(set(ids(outcome)) & set(pool)) == 1


async def test_an_engine_that_refuses_the_replacement_says_why() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first)

        async def refuses(plan: FleetPlan) -> FleetAnswer:
            raise InsufficientCapacity("the zone is full", remedy="add zones")

        ports.compute.create_fleet = refuses  # type: ignore[method-assign]
        outcome = await provisioned(world, "run", 2, ports)
        assert (outcome.reason, outcome.remedy) == ("the zone is full", "add zones")


async def test_an_instance_that_served_the_run_before_and_ends_meanwhile_is_replaced_too() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=1.0 if n < 2 else 30.0)) as world:
        first = await provisioned(world, "run", 2)
        call = asyncio.create_task(provisioned(world, "run", 3))
        await asyncio.sleep(10)
        await ends_the_first(world, records(world, RUNNING))
        outcome = await call
        assert outcome.succeeded, outcome.reason
        assert ids(outcome) == running(world)
        assert len(ids(outcome)) == 3
        assert [one.instance.id for one in outcome.held] == [id for id in ids(first) if id in running(world)]


async def test_where_the_revocation_cannot_be_written_the_error_names_what_may_still_run() -> None:
    async with a_world() as world:
        await with_pool(world, 3)
        ports = world.ports()

        async def refuses(plan: FleetPlan) -> FleetAnswer:
            apply_each = ports.records.apply_each

            async def silent(changes: Sequence[Change[Any]]) -> list[Any]:
                if any(change.step == "revoke" for change in changes):
                    raise Unavailable("no answer")
                return await apply_each(changes)

            ports.records.apply_each = silent  # type: ignore[method-assign]
            raise InsufficientCapacity("the zone is full")

        lost_in_commit(world, ports, ends_the_first)
        ports.compute.create_fleet = refuses  # type: ignore[method-assign]
        with pytest.raises(Unavailable, match="the zone is full; and not everything could be given back") as caught:
            await provisioned(world, "run", 3, ports)
        assert all(id in str(caught.value) for id in running(world))
        assert "Release run" in caught.value.remedy
        again = await provisioned(world, "run", 3)
        assert ids(again) == running(world)
        assert len(ids(again)) == 3


# ---- others wait at a full cap


async def test_a_lost_member_is_replaced_before_provisions_that_joined_the_queue_later() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "busy", 2)
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first)
        first = await waits(world, "first", 2, ports=ports)
        second = await waits(world, "second", 1)
        await released(world, "busy")
        outcome = await first
        assert outcome.succeeded, outcome.reason
        assert ids(outcome) == running(world)
        assert not second.done()


async def test_a_lost_member_is_replaced_before_a_provision_that_began_to_wait_during_its_call() -> None:
    async with a_pool(2) as world:
        ports = world.ports()

        async def another_waits(world: World, members: list[Instance]) -> None:
            await waits(world, "second", 1)
            await ends_the_first(world, members)

        lost_in_commit(world, ports, another_waits)
        outcome = await provisioned(world, "first", 2, ports)
        assert outcome.succeeded, outcome.reason
        assert ids(outcome) == running(world)


async def test_a_replacement_does_not_overtake_a_provision_that_waited_before_the_call() -> None:
    async with a_pool(4, large={"idle_target": 1}) as world:
        await provisioned(world, "busy", 3)
        await with_pool(world, 1, resource_class="large")
        await waits(world, "first", 2)
        ports = world.ports()
        lost_in_commit(world, ports, ends_the_first)
        outcome = await provisioned(world, "late", 1, ports, resource_class="large")
        assert "1 provision waits in front" in outcome.reason
        assert {one.run_id for one in records(world, RUNNING)} == {"busy"}
