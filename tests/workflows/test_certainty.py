"""What must be certain before a run is cancelled, a loss forgotten, or a job run again."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bullpen.engines.memory.github import JobSpec
from bullpen.liveness.lost_worker import LAG
from bullpen.model.worker import Worker
from bullpen.ports import Conclusion, WorkflowJob
from workflows.fixtures import GIVEN_UP_AFTER, LOST_AFTER, REPOSITORY, Scene, a_scene, build

pytestmark = pytest.mark.slow


def change(scene: Scene, instance: str, changed: Callable[[Worker], dict[str, Any]]) -> None:
    worker = scene.worker(instance)
    scene.world.memory.tables.workers[worker.id] = replace(worker, **changed(worker))


def leaves(scene: Scene, instance: str) -> None:
    """Its machine says that it is going to be taken away."""
    change(scene, instance, lambda worker: {"leaving": scene.world.clock.now()})


def ends(scene: Scene, run: str, name: str, conclusion: Conclusion) -> None:
    (job,) = [one for one in scene.of(run).jobs if one.spec.name == name]
    scene.hub._finish(scene.of(run), job, conclusion)


async def test_no_run_is_cancelled_under_a_job_that_github_sees_on_its_runner() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a", lasts=900), build("b", lasts=60))
        scene.world.memory.yard.capacity = 0
        scene.mutes(scene.on(run, "a"))
        await scene.passes(LOST_AFTER + 300, scene.controller())
        assert scene.alarms("lost instance left alone", reason="its runner is online")
        assert scene.hub.cancels == []


async def test_nor_under_one_that_waits_for_a_label_with_a_living_runner() -> None:
    async with a_scene() as scene:
        small = [build(name, label="{run}-small", lasts=2000) for name in ("a", "b")]
        big = [build(name, label="{run}-big", lasts=300) for name in ("c", "d")]
        run = scene.hub.start(REPOSITORY, *small, *big)
        for label in (f"{run}-small", f"{run}-big"):
            await scene.provides(label, 1)
        await asyncio.sleep(10)
        scene.world.memory.yard.capacity = 0
        scene.dies(scene.on(run, "a"))
        controller = scene.controller()
        await scene.passes(240, controller)
        scene.hub._assign = lambda: None  # type: ignore[method-assign]  # GitHub takes its time to hand out the next
        await scene.passes(120, controller)
        assert scene.conclusions(run)["c"] is Conclusion.SUCCESS
        assert scene.hub.cancels == []


async def test_a_loss_whose_machine_may_be_alive_stands_though_its_label_has_other_runners() -> None:
    """It would count among its label's runners, and nothing would check whether it still is one."""
    async with a_scene() as scene:
        run = await scene.run(JobSpec("first", lasts=1000), build(lasts=30, needs=("first",)), runners=2)
        mute, other = [one.id for one in scene.instances(run)]
        scene.mutes(mute)
        controller = scene.controller()
        await scene.passes(LOST_AFTER + LAG, controller)
        assert scene.worker(mute).owes_reschedule
        scene.hub.lose(mute)
        await scene.passes(120, controller)
        scene.dies(other)
        await scene.passes(600, controller)
        assert scene.conclusions(run)["build"] is Conclusion.SUCCESS


@pytest.mark.parametrize("end", [Conclusion.SUCCESS, Conclusion.FAILURE])
async def test_a_loss_whose_job_had_ended_is_settled_while_the_run_goes_on(end: Conclusion) -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a", lasts=30, ends=end), build("b", lasts=1000), runners=2)
        idle = scene.on(run, "a")
        await asyncio.sleep(60)
        scene.dies(idle)
        await scene.passes(LOST_AFTER + LAG + 60, scene.controller())
        assert not scene.of(run).completed
        assert scene.why(idle) == f"label {run} has other runners"


async def test_a_loss_whose_unreported_job_succeeded_is_settled_while_the_run_goes_on() -> None:
    async with a_scene() as scene:
        scene.hub.on_work = lambda name, activity: None  # no agent reports it
        run = await scene.run(build("a", lasts=200), build("b", lasts=1500), runners=2)
        mute = scene.on(run, "a")
        scene.mutes(mute)
        controller = scene.controller()
        await scene.passes(300, controller)
        scene.dies(mute)
        await scene.passes(LOST_AFTER + LAG, controller)
        assert not scene.of(run).completed
        assert scene.why(mute) == f"label {run} has other runners"


async def test_what_failed_between_the_last_sight_of_its_runner_and_the_end_of_its_machine_failed_by_itself() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a", lasts=300, ends=Conclusion.FAILURE))
        mute = scene.on(run, "a")
        scene.mutes(mute)
        controller = scene.controller()
        await scene.passes(240, controller)
        await asyncio.sleep(55)
        assert scene.of(run).completed
        scene.dies(mute)
        await scene.passes(LOST_AFTER, controller)
        assert scene.hub.reruns == []
        assert str(scene.said.done[-1]).endswith("a ended by itself: its runner was online")


@pytest.mark.parametrize("end", [Conclusion.FAILURE, Conclusion.CANCELLED])
async def test_what_ended_before_a_machine_left_was_not_lost_with_it(end: Conclusion) -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a", lasts=900), JobSpec("elsewhere", lasts=900))
        idle = scene.on(run, "a")
        ends(scene, run, "a", end)
        await asyncio.sleep(300)
        leaves(scene, idle)
        await asyncio.sleep(10)
        scene.dies(idle)
        await scene.passes(LOST_AFTER + 700, scene.controller())
        assert scene.hub.reruns == []


async def test_what_a_machine_that_leaves_ends_on_its_way_was_lost_though_github_saw_its_runner() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a", lasts=3000), JobSpec("elsewhere", lasts=600))
        one = scene.on(run, "a")
        leaves(scene, one)
        scene.mutes(one)
        controller = scene.controller()
        await scene.passes(LOST_AFTER, controller)
        ends(scene, run, "a", Conclusion.CANCELLED)
        scene.dies(one)
        await scene.passes(700, controller)
        assert scene.hub.reruns == [(run, 1, ("a",))]


async def test_a_list_of_jobs_that_never_catches_up_with_its_run_keeps_no_runner_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a", lasts=100), build("b", lasts=100), runners=3)
        (idle,) = [one.id for one in scene.instances(run) if one.id not in (scene.on(run, "a"), scene.on(run, "b"))]
        scene.dies(idle)
        ports = scene.ports()
        ask = ports.workflows.jobs

        async def stuck(repository: str, number: str, attempt: int) -> list[WorkflowJob]:
            jobs = await ask(repository, number, attempt)
            return [*jobs, replace(jobs[0], id=99, name="stuck", completed=False, runner="")]

        monkeypatch.setattr(ports.workflows, "jobs", stuck)
        await scene.passes(LOST_AFTER + LAG + 120, scene.controller(ports))
        assert scene.held() == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda worker: {"lease": 1800.0}, id="a lease of half an hour"),
        pytest.param(lambda worker: {"beat_at": worker.beat_at + timedelta(seconds=200)}, id="a clock that is ahead"),
    ],
)
async def test_what_github_gave_up_was_lost_whatever_a_worker_promised(
    changed: Callable[[Worker], dict[str, Any]],
) -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=3000))
        dead = scene.on(run, "build")
        scene.dies(dead)
        controller = scene.controller()
        await scene.passes(LOST_AFTER, controller)
        change(scene, dead, changed)
        await scene.passes(GIVEN_UP_AFTER, controller)
        assert scene.hub.reruns == [(run, 1, ("build",))]


async def test_the_loss_of_another_attempt_is_said_again() -> None:
    async with a_scene(rescue=()) as scene:
        run = await scene.run(build(lasts=300))
        controller = scene.controller()
        for attempt in (1, 2):
            scene.dies(scene.on(run, "build"))
            await scene.passes(LOST_AFTER + GIVEN_UP_AFTER, controller)
            which = {"run": run, "repository": REPOSITORY, "attempt": str(attempt), "jobs": "build"}
            assert scene.alarms("lost jobs not run again", **which) == 1
            if attempt == 1:
                scene.hub.rerun(scene.of(run), ("build",))
                await scene.provides(run, 1)
                await asyncio.sleep(10)


async def test_a_job_of_the_next_attempt_is_lost_with_a_runner_that_was_last_heard_in_the_one_before() -> None:
    async with a_scene(rescue_attempts=3) as scene:
        run = await scene.run(build(lasts=200, ends=Conclusion.FAILURE))
        mute = scene.on(run, "build")
        scene.mutes(mute)
        controller = scene.controller()
        await asyncio.sleep(195)
        scene.hub.rerun(scene.of(run), ("build",))
        await scene.passes(60, controller)
        assert scene.on(run, "build") == mute
        scene.dies(mute)
        await scene.passes(LOST_AFTER + GIVEN_UP_AFTER, controller)
        assert [attempt for _, attempt, _ in scene.hub.reruns] == [1, 2]
