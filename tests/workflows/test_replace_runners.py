"""Jobs that wait for a label which has lost all its runners get others, or their run fails visibly."""

import asyncio

from bullpen.engines.memory import Failure
from bullpen.engines.memory.github import JobSpec
from bullpen.liveness.lost_worker import LAG
from bullpen.ports import Conclusion
from fixtures import faults, requests
from workflows.fixtures import LOST_AFTER, REPOSITORY, a_scene, build, lose


async def test_a_job_whose_only_runner_died_before_it_came_gets_another() -> None:
    async with a_scene() as scene:
        first = JobSpec("first", lasts=300)
        run = await scene.run(first, build(lasts=30, needs=("first",)))
        (idle,) = [one.id for one in scene.instances(run)]
        scene.dies(idle)
        controller = scene.controller()
        await scene.passes(LOST_AFTER, controller)
        assert scene.instances(run) == []  # no job waits for it yet
        assert scene.worker(idle).owes_reschedule
        await scene.passes(400, controller)
        assert scene.conclusions(run)["build"] is Conclusion.SUCCESS
        assert not scene.worker(idle).owes_reschedule
        assert (scene.hub.reruns, scene.held()) == ([], [])


async def test_as_many_as_wait_and_at_most_as_many_as_were_asked_for() -> None:
    async with a_scene() as scene:
        jobs = [build(str(n), needs=("first",)) for n in range(5)]
        run = await scene.run(JobSpec("first", lasts=100), *jobs, runners=3)
        for one in scene.instances(run):
            scene.dies(one.id)
        await scene.passes(LOST_AFTER + 30, scene.controller())
        assert len(scene.instances(run)) == 3


async def test_a_label_that_has_a_runner_left_is_not_stranded() -> None:
    async with a_scene() as scene:
        run = await scene.run(JobSpec("first", lasts=600), build(lasts=30, needs=("first",)), runners=2)
        (dead, left) = [one.id for one in scene.instances(run)]
        scene.dies(dead)
        ports = scene.ports()
        controller = scene.controller(ports)
        await scene.passes(LOST_AFTER, controller)
        assert [one.id for one in scene.instances(run)] == [left]
        assert requests(ports)["workflows.jobs"] == 0
        await scene.passes(LAG, controller)
        assert scene.why(dead) == f"label {run} has other runners"
        assert requests(ports)["workflows.jobs"] == 1  # it might have had a job that it could not tell of


async def test_a_runner_that_was_released_is_not_missed() -> None:
    async with a_scene() as scene:
        run = await scene.run(JobSpec("first", lasts=300), build(needs=("first",)))
        (idle,) = [one.id for one in scene.instances(run)]
        await scene.releases(run)
        scene.dies(idle)
        ports = scene.ports()
        await scene.passes(400, scene.controller(ports))
        assert scene.instances(run) == []
        assert not scene.worker(idle).owes_reschedule
        assert requests(ports)["workflows.run"] == 0


async def test_without_capacity_the_run_is_cancelled() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a"), build("b"))
        scene.world.memory.yard.capacity = 0
        (dead,) = await lose(scene, run, "a")
        await scene.passes(60, scene.controller())
        assert scene.hub.cancels == [run]
        assert scene.alarms(
            "jobs wait for a label that gets no runners", run=run, label=run, effect="the run is cancelled"
        )
        assert not scene.worker(dead).owes_reschedule
        await scene.passes(700, scene.controller())
        assert scene.of(run).completed
        assert scene.hub.reruns == []


async def test_a_run_is_not_cancelled_under_a_job_that_works() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a"), build("b"), JobSpec("elsewhere", lasts=400))
        scene.world.memory.yard.capacity = 0
        await lose(scene, run, "a")
        controller = scene.controller()
        await scene.passes(120, controller)
        assert scene.hub.cancels == []
        await scene.passes(300, controller)
        assert scene.hub.cancels == [run]
        assert scene.conclusions(run)["elsewhere"] is Conclusion.SUCCESS


async def test_without_an_opt_in_an_alarm_is_raised_and_it_is_tried_again() -> None:
    async with a_scene(rescue=()) as scene:
        run = await scene.run(build("a"), build("b", lasts=30))
        scene.world.memory.yard.capacity = 0
        await lose(scene, run, "a")
        controller = scene.controller()
        await scene.passes(120, controller)
        assert scene.hub.cancels == []
        assert scene.alarms(
            "jobs wait for a label that gets no runners",
            run=run,
            effect="they wait: the repository is not in github.rescue",
        )
        scene.world.memory.yard.capacity = 10
        await scene.passes(120, controller)
        assert scene.conclusions(run)["b"] is Conclusion.SUCCESS


async def test_a_run_that_is_re_run_after_its_runners_died_gets_others() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=100))
        await lose(scene, run, "build")
        await asyncio.sleep(700)
        scene.hub.rerun(scene.of(run), ("build",))
        await scene.passes(200, scene.controller())
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS}
        assert scene.held() == []


async def test_a_store_that_is_away_in_the_middle_is_asked_again() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a"), build("b", lasts=30))
        scene.dies(scene.on(run, "a"))
        ports = scene.ports()
        faults(ports).fail_next("records.told_provisions", *[Failure.LOST_REQUEST] * 3)
        faults(ports).fail_next("records.apply", *[Failure.LOST_REQUEST] * 2)
        await scene.passes(LOST_AFTER + 200, scene.controller(ports))
        assert scene.conclusions(run)["b"] is Conclusion.SUCCESS


async def test_labels_know_no_case() -> None:
    async with a_scene() as scene:
        run = scene.hub.start(
            REPOSITORY, JobSpec("first", lasts=100), build("x", label="{run}-SMALL", needs=("first",))
        )
        await scene.provides(f"{run}-small", 1)
        (idle,) = [one.id for one in scene.instances(f"{run}-small")]
        await asyncio.sleep(10)
        scene.dies(idle)
        await scene.passes(LOST_AFTER + 60, scene.controller())
        assert len(scene.instances(f"{run}-small")) == 1
