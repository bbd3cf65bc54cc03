"""What provision promises: exactly N verified instances, reused where one fits, all or nothing."""

import asyncio

import pytest

from bullpen.config import Timings
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, TERMINATED, InstanceFate
from bullpen.model.progress import ProgressReport, WorkPhase
from bullpen.model.provision import Origin
from bullpen.provision import Request, provision
from bullpen.sim.agent import Temper
from fixtures import (
    a_world,
    ids,
    machines,
    mute,
    now,
    provisioned,
    records,
    released,
    requests,
    small,
    steps,
    tickets,
    with_pool,
)


async def test_a_run_gets_exactly_as_many_as_it_asked_for() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 7)
        assert outcome.succeeded
        assert len(outcome.members) == len(records(world, RUNNING)) == len(machines(world)) == 7
        assert {one.run_id for one in records(world, RUNNING)} == {"run"}


async def test_instances_of_the_pool_are_reused_before_any_is_created() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        outcome = await provisioned(world, "run", 3)
        assert ids(outcome) == pool
        assert (outcome.selected, outcome.created) == (3, 0)


async def test_only_what_the_pool_lacks_is_created() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        outcome = await provisioned(world, "run", 5)
        assert (outcome.selected, outcome.created) == (2, 3)
        assert set(pool) < set(ids(outcome))


async def test_a_members_deadline_is_its_maximum_runtime() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        (one,) = records(world, RUNNING)
        assert (one.threshold - world.clock.now()).total_seconds() == pytest.approx(1800.0, abs=1)


async def test_a_short_fleet_fails_the_provision_and_names_the_shortfall() -> None:
    async with a_world(capacity=2) as world:
        outcome = await provisioned(world, "run", 3)
        assert not outcome.succeeded
        assert outcome.members == ()
        assert "2 of 3 machines" in outcome.reason
        assert outcome.remedy


async def test_a_short_fleet_is_terminated_and_what_was_selected_is_given_back() -> None:
    async with a_world(capacity=3) as world:
        pool = await with_pool(world, 2)
        outcome = await provisioned(world, "run", 4)
        assert not outcome.succeeded
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == pool == machines(world)
        assert {d.instance_id: d.outcome for d in outcome.discarded if d.origin is Origin.SELECTED} == dict.fromkeys(
            pool, InstanceFate.OFFERED
        )
        assert [d.outcome for d in outcome.discarded if d.origin is Origin.CREATED] == [InstanceFate.TERMINATED]


async def test_what_a_failed_provision_gave_back_serves_the_next_run() -> None:
    async with a_world(capacity=3) as world:
        pool = await with_pool(world, 2)
        await provisioned(world, "run", 4)
        assert ids(await provisioned(world, "next", 2)) == pool


async def test_after_a_capacity_answer_there_is_no_second_attempt() -> None:
    async with a_world(capacity=1) as world:
        await provisioned(world, "run", 3)
        assert len(world.memory.yard.answers) == 1


async def test_a_failed_pre_runner_script_fails_the_provision_at_once_with_its_text() -> None:
    async with a_world(temper=lambda n: Temper(boot_failure="no space left" if n == 1 else "")) as world:
        outcome = await provisioned(world, "run", 3)
        assert "no space left" in outcome.reason
        assert now() < 10
        assert machines(world) == []


async def test_a_failed_registration_of_a_new_machine_fails_the_provision_at_once() -> None:
    async with a_world(temper=lambda n: Temper(registration_failure="bad token")) as world:
        outcome = await provisioned(world, "run", 2)
        assert "bad token" in outcome.reason
        assert now() < 10


async def test_a_new_machine_that_never_gets_ready_fails_the_provision_after_the_validation_time() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=1e6 if n == 0 else 1.0)) as world:
        outcome = await provisioned(world, "run", 2)
        assert "did not get ready within 180 s" in outcome.reason
        assert now() == pytest.approx(180.0, abs=2)
        assert machines(world) == []


async def test_a_pooled_instance_that_fails_to_register_is_replaced_and_the_reason_reported() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 1)
        world.tempers[pool[0]].registration_failure = "bad token"
        outcome = await provisioned(world, "run", 1)
        assert outcome.succeeded
        assert outcome.created == 1
        assert [(d.instance_id, d.outcome) for d in outcome.discarded] == [(pool[0], InstanceFate.TERMINATED)]
        assert "bad token" in outcome.discarded[0].reason


async def test_a_mute_instance_is_terminated_and_replaced() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        mute(world, pool[:1])
        outcome = await provisioned(world, "run", 2)
        assert ids(outcome) == pool[1:]
        assert pool[0] not in machines(world) or outcome.discarded == ()


async def test_an_instance_that_registered_and_then_died_is_not_committed() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0 if n >= 1 else 1.0)) as world:
        (first,) = await with_pool(world, 1)

        async def dies() -> None:
            await asyncio.sleep(30)
            mute(world, [first])

        death = asyncio.create_task(dies())
        outcome = await provisioned(world, "run", 2)
        await death
        assert outcome.succeeded
        assert first not in ids(outcome)
        assert len(records(world, RUNNING)) == 2


async def test_a_second_provision_for_the_run_tops_up_to_the_asked_count() -> None:
    async with a_world() as world:
        first = await provisioned(world, "run", 2)
        second = await provisioned(world, "run", 5)
        assert len(ids(second)) == 5
        assert set(ids(first)) < set(ids(second))
        assert len(machines(world)) == 5


async def test_a_second_provision_for_as_many_changes_nothing() -> None:
    async with a_world() as world:
        first = await provisioned(world, "run", 2)
        assert ids(await provisioned(world, "run", 2)) == ids(first)
        assert len(machines(world)) == 2


async def test_a_second_provision_of_another_class_is_a_request_of_its_own() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 2)
        outcome = await provisioned(world, "run", 2, resource_class="medium")
        assert outcome.created == 2
        assert len(machines(world)) == 4


async def test_with_allow_partial_fewer_are_accepted() -> None:
    async with a_world(capacity=2) as world:
        outcome = await provisioned(world, "run", 3, allow_partial=True)
        assert outcome.succeeded
        assert len(outcome.members) == len(records(world, RUNNING)) == 2


async def test_with_allow_partial_the_pool_suffices_if_no_machine_can_be_launched() -> None:
    async with a_world(capacity=2) as world:
        pool = await with_pool(world, 2)
        outcome = await provisioned(world, "run", 3, allow_partial=True)
        assert ids(outcome) == pool


async def test_with_allow_partial_nothing_at_all_is_still_a_failure_with_its_cause() -> None:
    async with a_world(capacity=0) as world:
        outcome = await provisioned(world, "run", 3, allow_partial=True)
        assert not outcome.succeeded
        assert "none of 3 machines" in outcome.reason


async def test_with_allow_partial_a_machine_that_fails_is_left_out() -> None:
    async with a_world(temper=lambda n: Temper(boot_failure="broken" if n == 0 else "")) as world:
        outcome = await provisioned(world, "run", 3, allow_partial=True)
        assert len(outcome.members) == 2
        assert len(machines(world)) == 2


async def test_with_allow_partial_a_member_that_died_meanwhile_is_left_out() -> None:
    async with a_world(capacity=2, temper=lambda n: Temper(boots_in=60.0 if n >= 1 else 1.0)) as world:
        (first,) = await with_pool(world, 1)
        death = asyncio.get_running_loop().call_later(30, mute, world, [first])
        outcome = await provisioned(world, "run", 3, allow_partial=True)
        death.cancel()
        assert first not in ids(outcome)


async def test_a_provision_gives_up_at_its_deadline() -> None:
    settings = small(Timings(provision=40.0, validation=40.0))
    async with a_world(settings=settings, temper=lambda n: Temper(boots_in=1e6)) as world:
        outcome = await provisioned(world, "run", 1)
        assert not outcome.succeeded
        assert now() == pytest.approx(40.0, abs=2)
        assert machines(world) == []


async def test_a_claim_outlives_its_provisions_deadline() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0 if n >= 1 else 1.0)) as world:
        (first,) = await with_pool(world, 1)
        task = asyncio.create_task(provisioned(world, "run", 2))
        await asyncio.sleep(20)
        one = world.memory.tables.instances[first]
        (provision,) = [p for p in world.memory.tables.provisions.values() if p.run_id == "run"]
        assert one.state is CLAIMED
        assert one.threshold > provision.deadline
        await task


async def test_the_token_of_a_fleet_is_stored_before_its_call() -> None:
    async with a_world() as world:
        seen: list[str] = []

        def on_launch(machine: object, plan: object) -> None:
            (record,) = world.memory.tables.provisions.values()
            seen.extend(fleet.client_token for fleet in record.fleets)

        world.memory.yard.on_launch = on_launch
        task = asyncio.create_task(provisioned(world, "run", 1))
        await asyncio.sleep(1)
        assert seen == list(world.memory.yard.answers)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_tickets_that_no_worker_needs_stay_in_the_queue() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 5)
        ports = world.ports()
        outcome = await provisioned(world, "run", 2, ports)
        left = sorted(set(pool) - set(ids(outcome)))
        assert sorted(ticket.instance_id for ticket in tickets(world)) == left
        assert requests(ports)["queue.send"] == 0  # no ticket was taken without need, so none had to go back


async def test_every_member_has_one_story_from_its_claim_to_its_commit() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        outcome = await provisioned(world, "run", 2)
        assert [steps(world, id)[-2:] for id in ids(outcome)] == [["claim", "commit"]] * 2
        assert [steps(world, p) for p in [outcome.provision_id]] == [["open_", "commit", "settle_committed"]]


async def test_progress_reports_every_place_that_waits_and_every_one_that_is_ready() -> None:
    async with a_world() as world:
        reports: list[ProgressReport] = []
        request = Request("run", 2, world.settings.requirements("small"), 1800.0)
        await provision(world.ports(), world.settings, request, stop=asyncio.Event(), tell=reports.append)
        assert reports[-1] == ProgressReport(WorkPhase.ACQUIRE, "2 of 2 ready", 2, 2)
        assert {WorkPhase.SELECT: 2} in [report.waiting for report in reports]
        assert {WorkPhase.CREATE: 2} in [report.waiting for report in reports]
        assert {report.done for report in reports} == {0, 1, 2}


@pytest.mark.slow
async def test_a_provision_right_after_one_killed_between_commit_and_its_carrying_out_does_not_double_it() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        for step in range(20, 400):
            run = f"run-{step}"
            process, _ = world.start("victim", lambda ports, run=run: provisioned(world, run, 2, ports))  # type: ignore[misc]
            process.die_at = step
            await process.ended()
            committed = [p for p in world.memory.tables.provisions.values() if p.run_id == run and p.members]
            if process.dead and committed and committed[0].owes is not None:
                assert ids(await provisioned(world, run, 2)) == sorted(committed[0].members)
                return
            await released(world, run)
        raise AssertionError(f"never killed there, pool {pool}")


async def test_a_terminated_instance_is_never_offered_again() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        mute(world, pool)
        await provisioned(world, "run", 2)
        assert {one.id for one in records(world, TERMINATED)} == set(pool)
        assert tickets(world) == []
