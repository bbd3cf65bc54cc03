"""Whether anything was lost: a worker that is silent here may be at work for GitHub, and is left alone."""

import asyncio
from dataclasses import replace

from bullpen.model.activity import Activity
from bullpen.model.instance import RUNNING, TERMINATED
from bullpen.ports import Conclusion
from workflows.fixtures import GIVEN_UP_AFTER, LOST_AFTER, REPOSITORY, a_scene, build


async def test_a_job_that_ended_well_though_its_worker_was_lost_is_left() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=400))
        mute = scene.on(run, "build")
        scene.mutes(mute)
        controller = scene.controller()
        await scene.passes(LOST_AFTER, controller)
        assert scene.worker(mute).owes_reschedule
        await scene.passes(500, controller)
        assert scene.hub.reruns == []
        assert "build succeeded" in scene.why(mute)


async def test_a_runner_that_is_online_is_marked_and_never_ended() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=3000))
        mute = scene.on(run, "build")
        scene.mutes(mute)
        await scene.passes(1500, scene.controller())
        assert scene.alarms("lost instance left alone", instance=mute, reason="its runner is online")
        assert mute in scene.world.memory.yard.machines
        assert scene.state(mute) == RUNNING


async def test_a_job_that_failed_on_a_runner_that_is_online_was_not_lost() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=600, ends=Conclusion.FAILURE))
        mute = scene.on(run, "build")
        scene.mutes(mute)
        await scene.passes(900, scene.controller())
        assert scene.hub.reruns == []
        assert "ended by itself" in scene.why(mute)


async def test_a_mute_machine_is_ended_once_its_runner_was_offline_twice() -> None:
    async with a_scene() as scene:
        run = await scene.run(build())
        mute = scene.on(run, "build")
        scene.mutes(mute)
        scene.hub.lose(mute)  # the machine lives, and reaches neither Bullpen nor GitHub
        controller = scene.controller()
        while not scene.worker(mute).owes_reschedule:
            await scene.passes(2, controller)
        lost_at = asyncio.get_running_loop().time()
        while scene.state(mute) == RUNNING:
            await scene.passes(2, controller)
        assert asyncio.get_running_loop().time() - lost_at >= 58
        assert scene.state(mute) == TERMINATED
        assert mute not in scene.world.memory.yard.machines
        await scene.passes(GIVEN_UP_AFTER, controller)
        assert len(scene.hub.reruns) == 1


async def test_a_runner_that_is_offline_now_and_then_is_not_ended() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=5000))
        mute = scene.on(run, "build")
        scene.mutes(mute)
        controller = scene.controller()
        await scene.passes(LOST_AFTER, controller)
        known = scene.world.memory.registrations[mute]
        for online in (False, True) * 4:
            scene.world.memory.registrations[mute] = replace(known, online=online)
            await scene.passes(60, controller)
        assert scene.state(mute) == RUNNING


async def test_a_worker_that_comes_back_has_lost_nothing() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=400))
        mute = scene.on(run, "build")
        scene.mutes(mute)
        controller = scene.controller()
        await scene.passes(LOST_AFTER, controller)
        assert scene.worker(mute).owes_reschedule
        scene.world.agents[mute].resume()
        await scene.passes(130, controller)
        assert scene.why(mute) == "it came back"
        assert scene.state(mute) == RUNNING
        await scene.passes(400, controller)
        assert (scene.hub.reruns, scene.held()) == ([], [])


async def test_what_a_worker_says_of_another_ones_runner_is_not_believed() -> None:
    """Its job could name any run: only a runner of its own instance ties it to a job."""
    async with a_scene() as scene:
        victim = await scene.run(build("theirs", lasts=100, ends=Conclusion.FAILURE))
        run = await scene.run(build())
        liar = scene.on(run, "build")
        theirs = scene.of(victim).jobs[0]
        scene.world.tempers[liar].work(Activity(REPOSITORY, victim, 1, victim, theirs.runner, "theirs"))
        await asyncio.sleep(10)
        scene.dies(liar)
        await scene.passes(LOST_AFTER + GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == [(run, 1, ("build",))]  # what GitHub itself says that it had
