"""A run that ended gives its runners back, without a release job."""

import asyncio
from dataclasses import replace

import pytest

from bullpen.controllers import Service
from bullpen.engines.memory.github import JobSpec
from bullpen.model.instance import IDLE
from bullpen.ports import Conclusion, WorkflowRun
from bullpen.sim.agent import Temper
from workflows.fixtures import GIVEN_UP_AFTER, REPOSITORY, a_scene, build


@pytest.mark.parametrize("label", ["{run}", "{run}-{attempt}", "{run}-small", "{run}-{attempt}-small"])
async def test_a_run_that_ended_gives_back_the_runners_of_its_labels(label: str) -> None:
    async with a_scene() as scene:
        jobs = [build("a", label=label, lasts=30), build("b", label=label, lasts=40)]
        run = scene.hub.start(REPOSITORY, *jobs)
        own = label.format(run=run, attempt=1)
        await scene.provides(own, 2)
        controller = scene.controller()
        await scene.passes(30, controller)
        assert len(scene.instances(own)) == 2
        await scene.passes(70, controller)
        assert scene.instances(own) == []
        assert scene.world.memory.yard.machines.keys() == scene.world.memory.tables.instances.keys()


async def test_another_run_keeps_what_it_has() -> None:
    async with a_scene() as scene:
        over, goes_on = await scene.run(build(lasts=20)), await scene.run(build(lasts=3000))
        await scene.passes(100, scene.controller())
        assert (len(scene.instances(over)), len(scene.instances(goes_on))) == (0, 1)


async def test_a_provision_still_at_work_when_its_run_is_over_comes_to_nothing() -> None:
    async with a_scene() as scene:
        scene.world.temper = lambda n: Temper(boots_in=120.0)
        run = scene.hub.start(REPOSITORY, build())
        providing = asyncio.get_running_loop().create_task(scene.provides(run, 1))
        await asyncio.sleep(20)
        scene.hub.cancel(scene.of(run))
        await scene.passes(100, scene.controller())
        with pytest.raises(AssertionError, match="its run was released"):
            await providing
        assert scene.held() == []


async def test_a_run_that_is_started_again_at_that_moment_gets_its_runners_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=20))
        await asyncio.sleep(20)
        ports = scene.ports()
        ask = ports.workflows.run

        async def run_again_behind_our_back(repository: str, number: str) -> WorkflowRun:
            found = await ask(repository, number)
            if not scene.hub.reruns:
                # Its runner is about to be given back, and GitHub has not heard of it yet.
                scene.hub.rerun(scene.of(run), ("build",))
                for job in scene.of(run).jobs:
                    job.runner = ""
            return found

        monkeypatch.setattr(ports.workflows, "run", run_again_behind_our_back)
        scene.world.memory.registrations.clear()
        await scene.passes(100, scene.controller(ports))
        assert scene.of(run).completed
        assert scene.held() == []


async def test_a_run_that_is_started_again_as_it_is_given_back_is_held_again_for_what_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_scene() as scene:
        run = await scene.run(build("late", lasts=30, ends=Conclusion.FAILURE), JobSpec("first", lasts=5))
        late = next(job for job in scene.of(run).jobs if job.spec.name == "late")
        late.spec = replace(late.spec, needs=("first",))
        ports = scene.ports()
        ask, raced = ports.workflows.run, False

        async def started_again(repository: str, number: str) -> WorkflowRun:
            nonlocal raced
            found = await ask(repository, number)
            if found.completed and not raced:
                raced = True
                scene.hub.rerun(scene.of(run), ("first",))
            return found

        monkeypatch.setattr(ports.workflows, "run", started_again)
        await scene.passes(300, scene.controller(ports))
        assert raced
        assert scene.of(run).completed
        assert scene.held() == []


@pytest.mark.slow
async def test_a_service_does_all_of_it_from_the_first_beat_to_an_empty_run() -> None:
    async with a_scene() as scene:
        service, stop = Service(scene.ports(), scene.world.settings), asyncio.Event()
        scene.hub.on_event = service.runs.note
        serving = asyncio.get_running_loop().create_task(service.run(stop))
        run = await scene.run(build("a", lasts=100), build("b", lasts=100), runners=2)
        scene.dies(scene.on(run, "a"))
        await asyncio.sleep(GIVEN_UP_AFTER + 30)
        assert scene.hub.reruns == [(run, 1, ("a",))]
        await asyncio.sleep(150)
        stop.set()
        await serving
        assert scene.of(run).completed
        states = {
            one.state
            for one in scene.world.memory.tables.instances.values()
            if one.id in scene.world.memory.yard.machines
        }
        assert (scene.held(), states) == ([], {IDLE})


async def test_a_service_without_github_follows_no_runs() -> None:
    async with a_scene() as scene:
        names = [loop.name for loop in Service(scene.ports(), scene.world.settings).loops]
        assert "runs" in names
        settings = type(scene.world.settings)()
        assert "runs" not in [loop.name for loop in Service(scene.ports(), settings).loops]
