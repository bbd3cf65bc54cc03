"""The timeline of `why`: how long each stage took, what was discarded and why."""

import asyncio

from bullpen import jobs
from bullpen.explain import why
from bullpen.explain.timeline import STAGES, Timeline
from bullpen.jobs.request import JobRequest
from bullpen.model.wait import TimelineOutcome
from bullpen.schema.why import why_of
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, mute, provisioned, with_pool


async def timeline_of(world: World, id: str) -> Timeline:
    found = (await why(world.ports(), world.settings, id)).timeline
    assert found is not None
    return found


async def test_the_stages_of_a_met_provision_are_in_order_up_to_the_first_job() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=20.0, registers_in=2.0)) as world:
        await with_pool(world, 1)
        await provisioned(world, "run", 2)
        await jobs.submit(world.ports(), [JobRequest("run", ("true",))] * 2, by="a test")
        await asyncio.sleep(5)
        found = await timeline_of(world, "run")
        assert (found.outcome, tuple(found.stages)) == (TimelineOutcome.MET, STAGES)
        assert found.stages["registered"] >= found.stages["booted"] >= found.stages["launched"]
        assert found.stages["first job"] >= found.stages["registered"]
        assert all(lane.first_job is not None for lane in found.lanes)
        assert found.seconds is not None
        assert found.seconds >= 22.0


async def test_what_was_discarded_says_why_and_what_became_of_it() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        mute(world, pool[:1])
        await provisioned(world, "run", 2)
        answer = why_of(await why(world.ports(), world.settings, "run"))
        assert answer.timeline is not None
        (lost,) = [lane for lane in answer.timeline.lanes if not lane.kept]
        assert lost.instance_id == pool[0]
        assert lost.reason
        assert lost.fate == "terminated"


async def test_an_open_provision_shows_the_stages_so_far() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0)) as world:
        task = asyncio.get_running_loop().create_task(provisioned(world, "run", 1))
        await asyncio.sleep(10)
        found = await timeline_of(world, "run")
        assert (found.outcome, found.ended_at) == (TimelineOutcome.OPEN, None)
        assert tuple(found.stages) == ("launched",)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_failed_provision_shows_its_reason() -> None:
    async with a_world(capacity=1) as world:
        outcome = await provisioned(world, "run", 2)
        found = await timeline_of(world, "run")
        assert (found.outcome, found.reason) == (TimelineOutcome.FAILED, outcome.reason)


async def test_without_a_report_the_stories_show_what_is_known() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        await provisioned(world, "run", 1)
        world.memory.ledger.reports.clear()
        found = await timeline_of(world, "run")
        assert (found.outcome, tuple(found.stages)) == (TimelineOutcome.MET, ("claimed",))
