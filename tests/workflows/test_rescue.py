"""Jobs that were lost with their runners are run again: exactly those, once, together, and only if asked."""

import asyncio
from dataclasses import replace

import pytest

from bullpen.engines.memory.github import JobSpec
from bullpen.errors import InsufficientCapacity
from bullpen.model import activity
from bullpen.model.instance import RUNNING
from bullpen.ports import Conclusion
from workflows.fixtures import GIVEN_UP_AFTER, LOST_AFTER, a_scene, build, lose

pytestmark = pytest.mark.slow


async def test_a_lost_job_is_run_again_once_its_run_has_completed() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(), build("test", lasts=30), runners=2)
        (dead,) = await lose(scene, run, "build")
        controller = scene.controller()
        await scene.passes(300, controller)
        assert scene.hub.reruns == []
        assert scene.worker(dead).owes_reschedule
        await scene.passes(GIVEN_UP_AFTER, controller)
        assert scene.hub.reruns == [(run, 1, ("build",))]
        await scene.passes(1200, controller)
        assert not scene.worker(dead).owes_reschedule
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS, "test": Conclusion.SUCCESS}
        assert len(scene.hub.reruns) == 1
        assert scene.held() == []


async def test_without_a_live_runner_of_the_label_one_is_provided_before_the_job_is_run_again() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=300))
        await lose(scene, run, "build")
        assert scene.instances(run) == []
        controller = scene.controller()
        await scene.passes(GIVEN_UP_AFTER, controller)
        assert scene.hub.reruns == [(run, 1, ("build",))]
        assert len(scene.instances(run)) == 1
        await scene.passes(500, controller)
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS}
        assert scene.held() == []


async def test_jobs_that_need_a_lost_one_run_after_it() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=100), build("package", lasts=10, needs=("build",)))
        await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER + 300, scene.controller())
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS, "package": Conclusion.SUCCESS}


async def test_several_lost_jobs_are_run_again_together() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a"), build("b"), build("c", lasts=20), runners=3)
        dead = await lose(scene, run, "a", "b")
        controller = scene.controller()
        await scene.passes(GIVEN_UP_AFTER, controller)
        assert scene.hub.reruns == [(run, 1, ("a", "b"))]
        assert len([one for one in scene.instances(run) if one.state is RUNNING]) == 2
        await scene.passes(1200, controller)
        assert not any(scene.worker(one).owes_reschedule for one in dead)


async def test_a_job_that_failed_by_itself_is_not_run_again_with_a_single_lost_one() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("lost"), build("wrong", lasts=20, ends=Conclusion.FAILURE), runners=2)
        await lose(scene, run, "lost")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == [(run, 1, ("lost",))]


async def test_several_lost_jobs_are_left_if_one_that_failed_by_itself_would_be_run_again_with_them() -> None:
    async with a_scene() as scene:
        wrong = build("wrong", lasts=20, ends=Conclusion.FAILURE)
        run = await scene.run(build("a"), build("b"), wrong, runners=3)
        (dead, _) = await lose(scene, run, "a", "b")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert "jobs that failed by themselves: wrong" in scene.why(dead)
        assert scene.alarms("lost jobs not run again", jobs="a, b")
        assert scene.held() == []


async def test_jobs_cancelled_because_of_lost_ones_do_not_keep_these_from_being_run_again() -> None:
    async with a_scene() as scene:
        cancelled = build("cancelled", lasts=20, ends=Conclusion.CANCELLED)
        run = await scene.run(build("a"), build("b"), cancelled, runners=3)
        await lose(scene, run, "a", "b")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == [(run, 1, ("a", "b", "cancelled"))]


async def test_a_lost_job_of_a_repository_that_did_not_opt_in_raises_an_alarm() -> None:
    async with a_scene(rescue=()) as scene:
        run = await scene.run(build())
        (dead,) = await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert "not in github.rescue" in scene.why(dead)
        assert scene.alarms("lost jobs not run again", jobs="build", reason="the repository is not in github.rescue")
        assert not scene.worker(dead).owes_reschedule


@pytest.mark.parametrize("rescue", [("*",), ("Acme/Widgets",)])
async def test_opting_in_knows_no_case_and_a_star(rescue: tuple[str, ...]) -> None:
    async with a_scene(rescue=rescue) as scene:
        run = await scene.run(build())
        await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert len(scene.hub.reruns) == 1


async def test_a_job_is_run_again_only_so_often() -> None:
    async with a_scene() as scene:
        run = await scene.run(build())
        await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        (second,) = await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert len(scene.hub.reruns) == 1
        assert "attempt 2 is beyond github.rescue-attempts (1)" in scene.why(second)
        assert scene.held() == []


async def test_more_often_where_the_settings_say_so() -> None:
    async with a_scene(rescue_attempts=2) as scene:
        run = await scene.run(build())
        for _ in range(3):
            await lose(scene, run, "build")
            await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert [attempt for _, attempt, _ in scene.hub.reruns] == [1, 2]


async def test_an_attempt_that_never_was_is_not_waited_for_for_ever() -> None:
    async with a_scene() as scene:
        run = await scene.run(build())
        dead = scene.on(run, "build")
        scene.dies(dead)
        workers = scene.world.memory.tables.workers
        lied = activity.parse(workers[f"{dead}/direct"].activity)
        assert lied is not None
        workers[f"{dead}/direct"] = replace(workers[f"{dead}/direct"], activity=replace(lied, attempt=9999).text())
        await scene.passes(LOST_AFTER + GIVEN_UP_AFTER, scene.controller())
        assert f"it named an attempt that run {run} never had" in scene.why(dead)
        assert not scene.worker(dead).owes_reschedule
        assert scene.hub.reruns == []


async def test_a_job_with_an_environment_is_never_run_again() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("deploy", environment="production"))
        (dead,) = await lose(scene, run, "deploy")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert "deployments are never repeated: deploy" in scene.why(dead)


async def test_nor_is_anything_beside_a_job_with_an_environment_which_may_need_it() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(), JobSpec("deploy", lasts=10, environment="production"))
        await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []


async def test_where_environments_cannot_be_seen_nothing_is_run_again() -> None:
    async with a_scene() as scene:
        scene.hub.denied.add("deploying")
        run = await scene.run(build())
        (dead,) = await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert "cannot check whether they have an environment" in scene.why(dead)


async def test_a_re_run_that_is_not_allowed_is_said_and_not_tried_again() -> None:
    async with a_scene() as scene:
        scene.hub.denied.add("rerun_job")
        run = await scene.run(build())
        (dead,) = await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert "the token lacks a permission" in scene.why(dead)
        assert scene.held() == []


async def test_without_capacity_nothing_is_run_again_and_that_is_said() -> None:
    async with a_scene() as scene:
        run = await scene.run(build())
        (dead,) = await lose(scene, run, "build")
        scene.world.memory.yard.capacity = 0
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert f"label {run} gets no runners" in scene.why(dead)
        assert scene.alarms("lost jobs not run again", jobs="build")


async def test_a_re_run_by_a_user_counts() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=200), build("test", lasts=20), runners=2)
        (dead,) = await lose(scene, run, "build")
        await asyncio.sleep(GIVEN_UP_AFTER)
        scene.hub.rerun(scene.of(run), ("build",))
        await scene.passes(430, scene.controller())
        assert not scene.worker(dead).owes_reschedule
        assert len(scene.hub.reruns) == 1
        assert scene.held() == []


async def test_a_run_that_a_user_cancelled_is_not_run_again() -> None:
    async with a_scene() as scene:
        run = await scene.run(build())
        (dead,) = await lose(scene, run, "build")
        scene.hub.cancel(scene.of(run))
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert "was cancelled" in scene.why(dead)


async def test_of_several_jobs_of_one_runner_the_last_one_is_lost() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("first", lasts=15, ends=Conclusion.FAILURE), build("second"))
        await asyncio.sleep(20)
        assert scene.on(run, "first") == scene.on(run, "second")
        await lose(scene, run, "second")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == [(run, 1, ("second",))]


async def test_capacity_that_fails_at_once_is_no_endless_loop() -> None:
    async with a_scene() as scene:
        run = await scene.run(build())
        await lose(scene, run, "build")
        scene.world.memory.yard.troubles.append((0, InsufficientCapacity("none")))
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert scene.held() == []
