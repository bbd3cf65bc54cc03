"""The report of a call: when each instance reached each stage, what was discarded and why."""

import asyncio
from dataclasses import replace

import pytest

from builders import open_provision
from bullpen.errors import FailureCause, Unavailable
from bullpen.model.fleet import FleetAnswer
from bullpen.model.provision import ABORTED, Origin, Provision
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome, abandoned
from bullpen.model.times import later
from bullpen.pool import debts
from bullpen.ports import Ports
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, mute, provisioned, with_pool


async def report_of(world: World, provision_id: str) -> ProvisionReport:
    found = await world.ports().history.report(provision_id)
    assert found is not None
    return found


def times(lane: Lane, *stages: str) -> list[float]:
    found = [getattr(lane, stage) for stage in stages]
    assert None not in found, f"{lane} has not reached every one of {stages}"
    return found


async def test_a_reused_runner_has_its_pickup_claim_acknowledgement_and_registration_in_order() -> None:
    async with a_world(temper=lambda n: Temper(registers_in=0.7)) as world:
        await with_pool(world, 1)
        outcome = await provisioned(world, "run", 1)
        (lane,) = (await report_of(world, outcome.provision_id)).lanes
        assert (lane.origin, lane.kept, lane.reason) == (Origin.SELECTED, True, "")
        reached = times(lane, "picked", "claimed", "seen", "registered")
        assert reached == sorted(reached)
        assert reached[-1] >= 0.7
        assert (lane.launched, lane.booted) == (None, None)


async def test_a_new_machine_has_its_launch_boot_and_registration_in_order() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=20.0, registers_in=3.0)) as world:
        outcome = await provisioned(world, "run", 1)
        (lane,) = (await report_of(world, outcome.provision_id)).lanes
        launched, booted, registered = times(lane, "launched", "booted", "registered")
        assert launched < 1.0
        assert 20.0 <= booted < 21.0
        assert 23.0 <= registered < 24.0
        assert (lane.origin, lane.kept) == (Origin.CREATED, True)


async def test_a_silent_runner_has_a_lane_that_says_why_it_was_not_kept_and_what_became_of_it() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        mute(world, pool[:1])
        outcome = await provisioned(world, "run", 2)
        report = await report_of(world, outcome.provision_id)
        lanes = {lane.instance_id: lane for lane in report.lanes}
        assert (lanes[pool[0]].kept, lanes[pool[0]].registered) == (False, None)
        assert lanes[pool[0]].reason
        assert lanes[pool[0]].fate == "terminated"
        assert (report.outcome, report.requested, report.selected, report.created) == (ReportOutcome.MET, 2, 1, 1)
        assert report.taken >= 1


async def test_a_call_that_was_not_met_is_reported_with_its_cause() -> None:
    async with a_world(capacity=1) as world:
        outcome = await provisioned(world, "run", 3)
        report = await report_of(world, outcome.provision_id)
        assert (report.outcome, report.cause) == (ReportOutcome.FAILED, FailureCause.CAPACITY)
        assert report.reason == outcome.reason
        assert not any(lane.kept for lane in report.lanes)


async def test_a_store_that_does_not_take_the_report_does_not_fail_the_call() -> None:
    async with a_world() as world:
        ports = world.ports()

        async def away(report: ProvisionReport) -> None:
            raise Unavailable("the store does not answer")

        ports.history.note_provision = away  # type: ignore[method-assign]
        outcome = await provisioned(world, "run", 1, ports)
        assert outcome.succeeded


async def test_a_store_that_never_answers_delays_the_call_by_a_second_at_most() -> None:
    async with a_world() as world:
        ports: Ports = world.ports()

        async def silent(report: ProvisionReport) -> None:
            await asyncio.Event().wait()

        ports.history.note_provision = silent  # type: ignore[method-assign]
        began = asyncio.get_running_loop().time()
        outcome = await provisioned(world, "run", 1, ports)
        assert outcome.succeeded
        assert asyncio.get_running_loop().time() - began < outcome.duration + 1.1


# ---- calls that end in an error, and calls whose process is gone


async def test_a_call_that_ends_in_an_unexpected_error_is_reported_as_a_fault() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        ports = world.ports()

        async def create_fleet(plan: object) -> FleetAnswer:
            raise RuntimeError("the moon is full")

        ports.compute.create_fleet = create_fleet  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="the moon is full"):
            await provisioned(world, "run", 2, ports)
        (record,) = [one for one in world.memory.tables.provisions.values() if one.run_id == "run"]
        report = await report_of(world, record.id)
        assert (report.outcome, report.cause) == (ReportOutcome.FAILED, FailureCause.FAULT)
        assert (report.reason, report.requested) == ("the moon is full", 2)
        assert [lane.kept for lane in report.lanes] == [False]


async def test_a_call_whose_process_was_killed_is_reported_by_the_process_that_gives_it_up() -> None:
    async with a_world() as world:
        ports, patience = world.ports(), world.settings.timings.provision
        asked = ports.clock.now()
        for id, run in (("p-1", "run"), ("p-2", ""), ("p-3", "other")):
            await ports.records.apply(open_provision(id, run_id=run, deadline=later(asked, patience), want=3))
        own = replace(abandoned(record_of(world, "p-3"), "own words", patience, asked), requested=7)
        await ports.history.note_provision(own)
        await asyncio.sleep(patience + 1)
        await debts.pay_due(ports, world.settings, 10, by="a test")
        report = await report_of(world, "p-1")
        assert (report.outcome, report.cause) == (ReportOutcome.FAILED, FailureCause.INTERRUPTED)
        assert (report.run_id, report.requested, report.lanes) == ("run", 3, ())
        assert report.reason == "its deadline passed"
        assert report.asked_at == asked
        assert report.waited == pytest.approx(patience + 1)
        assert await ports.history.report("p-2") is None, "it warms the pool: no call waits for it"
        assert (await report_of(world, "p-3")).requested == 7, "what the call said itself stays"


async def test_a_history_that_is_away_keeps_no_killed_call_from_being_given_up() -> None:
    async with a_world() as world:
        ports = world.ports()

        async def away(report: ProvisionReport) -> None:
            raise Unavailable("the store does not answer")

        ports.history.note_provision = away  # type: ignore[method-assign]
        await ports.records.apply(open_provision("p-1", run_id="run", deadline=later(ports.clock.now(), 1)))
        await asyncio.sleep(2)
        await debts.pay_due(ports, world.settings, 10, by="a test")
        assert record_of(world, "p-1").state is ABORTED


def record_of(world: World, id: str) -> Provision:
    return world.memory.tables.provisions[id]
