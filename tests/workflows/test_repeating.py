"""What exactly is run again, on whom, and what is left: cancelled jobs, used-up runners, jobs that come after."""

import asyncio
from dataclasses import replace

import pytest

from bullpen.engines.memory.github import JobSpec
from bullpen.errors import NotFound, PermissionDenied
from bullpen.pool import lifecycle
from bullpen.ports import Conclusion, Registration, WorkflowRun
from bullpen.sim.agent import Temper
from fixtures import requests
from workflows.fixtures import GIVEN_UP_AFTER, REPOSITORY, Scene, a_scene, build, lose
from workflows.fixtures import settings as on_github

pytestmark = pytest.mark.slow


async def test_a_job_that_a_user_cancelled_is_left_though_its_run_failed_for_another() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("lost"), build("wrong", lasts=20, ends=Conclusion.FAILURE), runners=2)
        (dead,) = await lose(scene, run, "lost")
        scene.hub.cancel(scene.of(run))
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert "lost was cancelled" in scene.why(dead)


async def test_a_job_that_ended_as_cancelled_on_a_machine_which_said_that_it_leaves_was_lost() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=300))
        dead = scene.on(run, "build")
        workers, known = scene.world.memory.tables.workers, scene.worker(dead)
        workers[known.id] = replace(known, leaving=scene.world.clock.now())
        scene.dies(dead)
        scene.hub._finish(scene.of(run), scene.of(run).jobs[0], Conclusion.CANCELLED)  # as its runner said goodbye
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == [(run, 1, ("build",))]


async def test_jobs_cancelled_because_of_a_single_lost_one_are_run_again_with_it() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("lost"), build("cut", lasts=20, ends=Conclusion.CANCELLED), runners=2)
        await lose(scene, run, "lost")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert scene.hub.reruns == [(run, 1, ("lost", "cut"))]


async def test_a_job_that_was_ended_at_its_maximum_runtime_would_be_so_again() -> None:
    async with a_scene() as scene:
        scene.max_runtime = 300.0
        run = await scene.run(build(lasts=20_000))
        one = scene.on(run, "build")
        await scene.passes(360 + GIVEN_UP_AFTER + 60, scene.controller(), every=5.0)
        assert one not in scene.world.memory.yard.machines
        assert scene.hub.reruns == []
        assert "build was ended at the maximum runtime of its runner" in scene.why(one)


async def test_it_runs_again_on_runners_that_have_the_whole_time_before_them() -> None:
    async with a_scene() as scene:
        scene.max_runtime = 1200.0
        run = await scene.run(build("lost", lasts=1000), build("other", lasts=1050), runners=2)
        await asyncio.sleep(300)
        await lose(scene, run, "lost")
        controller = scene.controller()
        await scene.passes(800, controller, every=5.0)
        assert len(scene.hub.reruns) == 1
        await scene.passes(1100, controller, every=5.0)
        assert scene.conclusions(run)["lost"] is Conclusion.SUCCESS


async def test_jobs_that_need_it_get_runners_of_their_own_label_though_that_was_released() -> None:
    async with a_scene() as scene:
        run = await scene.run_of_two_labels(lasts=400)
        await lose(scene, run, "build")
        for label in (f"{run}-small", f"{run}-test"):
            await scene.releases(label)
        await scene.passes(GIVEN_UP_AFTER + 900, scene.controller())
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS, "test": Conclusion.SUCCESS}
        assert scene.held() == []


async def test_a_label_that_is_released_while_its_runners_come_gets_others() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=200))
        await lose(scene, run, "build")
        scene.world.temper = lambda n: Temper(boots_in=40.0)
        controller, provisions = scene.controller(), scene.world.memory.tables.provisions
        while not any(one.state == "open" for one in provisions.values()):
            await scene.passes(2, controller)
        await scene.releases(run)
        await scene.passes(600, controller)
        assert len(scene.hub.reruns) == 1


async def test_what_was_lost_hours_before_the_end_of_its_run_is_not_forgotten() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=300), JobSpec("long", lasts=14_000))
        (dead,) = await lose(scene, run, "build")
        controller = scene.controller()
        for _ in range(5):
            await scene.passes(3600, controller, every=60.0)
            await scene.ports().records.purge(scene.world.clock.now(), 1000)
        assert scene.hub.reruns == [(run, 1, ("build",))]
        assert not scene.worker(dead).owes_reschedule
        assert on_github().remembers > on_github().timings.purge


async def test_a_run_that_is_missing_once_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=200))
        await lose(scene, run, "build")
        ports = scene.ports()
        ask, answers = ports.workflows.run, 0

        async def missing_once(repository: str, number: str) -> WorkflowRun:
            nonlocal answers
            answers += 1
            if answers == 1:
                raise NotFound(f"run {number} does not exist")
            return await ask(repository, number)

        monkeypatch.setattr(ports.workflows, "run", missing_once)
        await scene.passes(GIVEN_UP_AFTER, scene.controller(ports))
        assert scene.hub.reruns == [(run, 1, ("build",))]
        assert not scene.alarms("run given up")


async def test_where_the_runners_cannot_be_listed_other_runs_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_scene() as scene:
        run, other = await scene.run(build(lasts=3000)), await scene.run(build(lasts=200))
        scene.mutes(scene.on(run, "build"))
        ports = scene.ports()

        async def denied() -> list[Registration]:
            raise PermissionDenied("the token lacks a permission")

        monkeypatch.setattr(ports.ci, "registrations", denied)
        await scene.passes(400, scene.controller(ports))
        assert scene.instances(other) == []
        assert scene.alarms("cannot check whether lost runners are online", error="the token lacks a permission")


async def test_a_re_run_that_github_never_shows_is_said_and_asked_for_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=200))
        await lose(scene, run, "build")
        asked: list[tuple[str, ...]] = []
        accept = scene.hub.rerun
        monkeypatch.setattr(scene.hub, "rerun", lambda run, names: asked.append(names))
        controller = scene.controller()
        while not asked:
            await scene.passes(2, controller)
        monkeypatch.setattr(scene.hub, "rerun", accept)
        await scene.passes(200, controller)
        assert scene.hub.reruns == []
        await scene.passes(200, controller)
        assert len(scene.hub.reruns) == 1
        assert scene.alarms("requested re-run not shown by GitHub; trying again", run=run)


async def test_a_machine_whose_end_never_becomes_certain_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=300))
        dead = scene.on(run, "build")
        scene.mutes(dead)
        scene.hub.lose(dead)
        ports = scene.ports()

        async def uncertain(ids: object) -> list[str]:
            return []

        monkeypatch.setattr(ports.compute, "terminate", uncertain)
        controller = scene.controller(ports)
        await scene.passes(300, controller)
        assert not scene.alarms("end of machine not confirmed")
        await scene.passes(400, controller)
        assert scene.alarms("end of machine not confirmed", instance=dead)


async def test_the_runner_of_a_lost_job_is_taken_off_githubs_list_as_the_job_is_run_again() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=200))
        (dead,) = await lose(scene, run, "build")
        assert dead in scene.world.memory.registrations
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        assert len(scene.hub.reruns) == 1
        assert dead not in scene.world.memory.registrations


async def test_a_job_that_never_ends_for_its_agent_holds_up_a_machine_only_until_its_run_has_completed() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=100))
        one = scene.on(run, "build")
        scene.hub.on_work = lambda name, activity: None  # its agent hears nothing of the end
        await _given_back(scene, one)
        controller = scene.controller()
        await scene.passes(60, controller)
        assert one in scene.world.memory.yard.machines
        await scene.passes(200, controller)
        assert one not in scene.world.memory.yard.machines
        assert any("which has completed" in str(event) for event in scene.said.done)


async def test_ends_wake_and_other_events_of_jobs_only_where_a_worker_is_lost() -> None:
    async with a_scene() as scene:
        calm = await scene.run(build(lasts=5000))
        run = await scene.run(build("a", lasts=5000), build("b", lasts=5000))
        ports = scene.ports()
        controller = scene.controller(ports)
        await lose(scene, run, "a")
        await scene.passes(2, controller)
        before = requests(ports)["workflows.run"]
        controller.note_job(REPOSITORY, calm)
        await scene.passes(2, controller)
        assert requests(ports)["workflows.run"] == before
        controller.note_job(REPOSITORY, run)
        await scene.passes(2, controller)
        assert requests(ports)["workflows.run"] == before + 1


async def _given_back(scene: Scene, one: str) -> None:
    ports, known = scene.ports(), scene.world.memory.tables.instances[one]
    given = lifecycle.give_back(ports, scene.world.settings, known, scene.world.clock.now(), "test", "the race")
    await ports.records.apply(given)
