"""The report of a call: when each instance reached each stage, what was discarded and why."""

import asyncio

from bullpen.errors import FailureCause, Unavailable
from bullpen.model.provision import Origin
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome
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
