"""While an operator has paused the class, lost runners get no others: jobs wait for the resume."""

import asyncio

import pytest

from bullpen.engines.memory.github import JobSpec
from bullpen.operate import pause, resume
from bullpen.ports import Conclusion
from workflows.fixtures import GIVEN_UP_AFTER, Scene, a_scene, build, lose

NOTE = "the image does not boot"


async def paused(scene: Scene, resource_class: str = "small") -> None:
    await pause(scene.ports(), scene.world.settings, resource_class, NOTE, operator="ada")


async def resumed(scene: Scene, resource_class: str = "small") -> None:
    await resume(scene.ports(), scene.world.settings, resource_class, operator="ada")


@pytest.mark.parametrize("resource_class", ["small", ""])
async def test_a_run_whose_label_lost_its_runners_is_not_cancelled_and_goes_on_after_the_resume(
    resource_class: str,
) -> None:
    async with a_scene() as scene:
        run = await scene.run(JobSpec("first", lasts=300), build("next", lasts=30, needs=("first",)))
        await paused(scene, resource_class)
        (idle,) = [one.id for one in scene.instances(run)]
        scene.dies(idle)
        controller = scene.controller()
        await scene.passes(1200, controller)
        assert scene.hub.cancels == []
        assert scene.alarms("jobs wait for a label that gets no runners", effect="they wait for the resume") == 1
        assert len(scene.world.memory.tables.provisions) == 1, "no try leaves a record"
        await resumed(scene, resource_class)
        await scene.passes(200, controller)
        assert scene.conclusions(run)["next"] is Conclusion.SUCCESS


async def test_lost_jobs_are_run_again_after_the_resume() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=100))
        await paused(scene)
        (dead,) = await lose(scene, run, "build")
        controller = scene.controller()
        await scene.passes(GIVEN_UP_AFTER + 600, controller)
        assert scene.hub.reruns == []
        assert scene.worker(dead).owes_reschedule
        assert scene.alarms("lost jobs wait for the resume", run=run) == 1
        await resumed(scene)
        await scene.passes(300, controller)
        assert len(scene.hub.reruns) == 1
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS}
        assert not scene.worker(dead).owes_reschedule


async def test_a_pause_that_lands_while_runners_are_requested_gives_nothing_up() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a"), build("b", lasts=30))
        ports = scene.ports()
        ahead = ports.records.ahead

        async def paused_meanwhile(limit: int) -> object:
            await paused(scene)
            return await ahead(limit)

        ports.records.ahead = paused_meanwhile  # type: ignore[method-assign, assignment]
        scene.dies(scene.on(run, "a"))
        await scene.passes(300, scene.controller(ports))
        assert scene.hub.cancels == []
        await resumed(scene)
        await asyncio.sleep(0)
        await scene.passes(300, scene.controller())
        assert scene.conclusions(run)["b"] is Conclusion.SUCCESS
