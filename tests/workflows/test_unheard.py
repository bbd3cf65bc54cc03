"""Machines that die after GitHub gave them a job and before they report it: GitHub's list shows what was lost."""

import asyncio
from dataclasses import replace

import pytest

from bullpen.engines.memory.github import JobSpec
from bullpen.liveness.lost_worker import LAG
from bullpen.ports import Conclusion, WorkflowJob
from workflows.fixtures import GIVEN_UP_AFTER, LOST_AFTER, Scene, a_scene, build


def no_agent_reports(scene: Scene) -> None:
    """From now on no agent gets to say which job its runner has."""
    scene.hub.on_work = lambda name, activity: None


async def test_a_job_that_its_runner_could_not_tell_of_is_run_again_once() -> None:
    async with a_scene() as scene:
        no_agent_reports(scene)
        run = await scene.run(build(lasts=300))
        dead = scene.on(run, "build")
        assert scene.worker(dead).activity == ""
        scene.dies(dead)
        controller = scene.controller()
        await scene.passes(LOST_AFTER + GIVEN_UP_AFTER, controller)
        assert scene.hub.reruns == [(run, 1, ("build",))]
        await scene.passes(600, controller)
        assert len(scene.hub.reruns) == 1
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS}
        assert not scene.worker(dead).owes_reschedule
        assert scene.held() == []


@pytest.mark.slow
async def test_also_if_the_label_has_other_runners_meanwhile() -> None:
    async with a_scene() as scene:
        no_agent_reports(scene)
        run = await scene.run(build(lasts=100), build("other", lasts=1500), runners=2)
        dead = scene.on(run, "build")
        scene.dies(dead)
        controller = scene.controller()
        await scene.passes(LAG + GIVEN_UP_AFTER, controller)
        assert scene.worker(dead).owes_reschedule
        await scene.passes(1500, controller)
        assert scene.hub.reruns == [(run, 1, ("build",))]
        assert scene.held() == []


async def test_and_where_what_github_shows_is_late() -> None:
    async with a_scene() as scene:
        no_agent_reports(scene)
        scene.hub.lag = 60.0
        run = await scene.run(build(lasts=100))
        scene.dies(scene.on(run, "build"))
        await scene.passes(LOST_AFTER + GIVEN_UP_AFTER + 120, scene.controller())
        assert scene.hub.reruns == [(run, 1, ("build",))]


async def test_a_list_of_jobs_that_is_behind_its_run_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_scene() as scene:
        no_agent_reports(scene)
        run = await scene.run(build(lasts=100))
        scene.dies(scene.on(run, "build"))
        ports = scene.ports()
        ask, answers = ports.workflows.jobs, 0

        async def behind_once(repository: str, number: str, attempt: int) -> list[WorkflowJob]:
            nonlocal answers
            answers += 1
            jobs = await ask(repository, number, attempt)
            return jobs if answers > 1 else [replace(job, completed=False, runner="") for job in jobs]

        await scene.passes(LOST_AFTER, scene.controller())
        await asyncio.sleep(GIVEN_UP_AFTER)
        monkeypatch.setattr(ports.workflows, "jobs", behind_once)
        await scene.passes(LOST_AFTER, scene.controller(ports))
        assert answers > 1
        assert scene.hub.reruns == [(run, 1, ("build",))]


async def test_a_job_that_failed_by_itself_is_not_lost_with_its_runner_that_died_later() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("wrong", lasts=30, ends=Conclusion.FAILURE), JobSpec("elsewhere", lasts=400))
        idle = scene.on(run, "wrong")
        await asyncio.sleep(60)
        assert scene.worker(idle).activity == ""
        scene.dies(idle)
        await scene.passes(LOST_AFTER + 400, scene.controller())
        assert scene.hub.reruns == []
        assert scene.why(idle) == "wrong ended by itself: its runner was lost later"
        assert scene.held() == []


async def test_such_a_job_of_a_repository_that_did_not_opt_in_raises_an_alarm_too() -> None:
    async with a_scene(rescue=()) as scene:
        no_agent_reports(scene)
        run = await scene.run(build())
        scene.dies(scene.on(run, "build"))
        await scene.passes(LOST_AFTER + GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert scene.alarms("lost jobs not run again", jobs="build", reason="the repository is not in github.rescue")


async def test_a_run_is_cancelled_for_want_of_runners_beside_such_a_job() -> None:
    """Its machine is gone: the job is lost, and only GitHub does not know it yet."""
    async with a_scene() as scene:
        no_agent_reports(scene)
        run = await scene.run(build("a"), build("b"))
        scene.world.memory.yard.capacity = 0
        scene.dies(scene.on(run, "a"))
        await scene.passes(LOST_AFTER + 60, scene.controller())
        assert scene.hub.cancels == [run]


async def test_jobs_that_need_it_get_runners_of_their_own_label_though_that_was_released() -> None:
    async with a_scene() as scene:
        no_agent_reports(scene)
        run = await scene.run_of_two_labels()
        scene.dies(scene.on(run, "build"))
        await scene.passes(LOST_AFTER, scene.controller())
        await scene.releases(f"{run}-test")
        await scene.passes(GIVEN_UP_AFTER + 400, scene.controller())
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS, "test": Conclusion.SUCCESS}
        assert scene.held() == []
