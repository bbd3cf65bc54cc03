"""What lasts: capacity that lacks for long, runners that seem to live, agents that never hear of an end."""

import asyncio

import pytest

from bullpen.engines.memory.github import JobSpec
from bullpen.model.instance import RUNNING, TERMINATED
from bullpen.pool import debts
from bullpen.ports import Conclusion
from bullpen.workflows import replace_runners
from workflows.fixtures import GIVEN_UP_AFTER, LOST_AFTER, REPOSITORY, Scene, a_scene, build

pytestmark = pytest.mark.slow


def no_agent_sees_the_end(scene: Scene) -> None:
    """From now on agents go on to name the jobs that they have, and none of another."""
    work = scene.hub.on_work
    scene.hub.on_work = lambda name, activity: None if activity is None else work(name, activity)


async def test_a_label_gets_its_runners_however_often_there_were_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replace_runners, "LONGEST_PAUSE", 60.0)
    async with a_scene(rescue=()) as scene:
        run = await scene.run(JobSpec("first", lasts=200), build(lasts=60, needs=("first",)))
        (idle,) = [one.id for one in scene.instances(run)]
        scene.world.memory.yard.capacity = 0
        scene.dies(idle)
        controller = scene.controller()
        await scene.passes(1800, controller)
        assert len(scene.world.memory.tables.provisions) > 20
        scene.world.memory.yard.capacity = 10
        await scene.passes(240, controller)
        assert scene.conclusions(run)["build"] is Conclusion.SUCCESS


async def test_runners_that_cannot_be_provisioned_are_requested_less_and_less_often() -> None:
    """Each time leaves a record, which the next one has to read past."""
    async with a_scene(rescue=()) as scene:
        run = await scene.run(build("a"), build("b", lasts=60))
        scene.world.memory.yard.capacity = 0
        scene.dies(scene.on(run, "a"))
        controller = scene.controller()
        await scene.passes(1800, controller)
        assert len(scene.world.memory.tables.provisions) < 12
        scene.world.memory.yard.capacity = 10
        await scene.passes(420, controller)
        assert scene.conclusions(run)["b"] is Conclusion.SUCCESS


async def test_a_run_that_waits_in_vain_is_cancelled_however_late_its_other_jobs_end() -> None:
    async with a_scene() as scene:
        run = await scene.run(
            JobSpec("first", lasts=200), build(lasts=60, needs=("first",)), JobSpec("long", lasts=2400)
        )
        (idle,) = [one.id for one in scene.instances(run)]
        scene.world.memory.yard.capacity = 0
        scene.dies(idle)
        controller = scene.controller()
        await scene.passes(2300, controller)
        assert scene.hub.cancels == []
        await scene.passes(200, controller)
        assert scene.hub.cancels == [run]


async def test_a_job_that_waits_for_githubs_own_machines_goes_on() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a"), build("b"), JobSpec("elsewhere", label="ubuntu-latest"))
        scene.world.memory.yard.capacity = 0
        scene.dies(scene.on(run, "a"))
        await scene.passes(LOST_AFTER + 120, scene.controller())
        assert scene.alarms(
            "jobs wait for a label that gets no runners",
            label=run,
            effect="the run is cancelled if that is still so when its other jobs have ended",
        )
        assert scene.hub.cancels == []


async def test_the_same_alarm_comes_once_an_hour() -> None:
    async with a_scene(rescue=()) as scene:
        run = await scene.run(JobSpec("first", lasts=200), build(needs=("first",)))
        (idle,) = [one.id for one in scene.instances(run)]
        scene.world.memory.yard.capacity = 0
        scene.dies(idle)
        await scene.passes(4500, scene.controller(), every=10)
        assert (
            scene.alarms(
                "jobs wait for a label that gets no runners", effect="they wait: the repository is not in github.rescue"
            )
            == 2
        )


async def test_a_lost_runner_is_not_its_labels_other_runner() -> None:
    """Its agent hangs while GitHub sees it; once GitHub does not either, the job that waits gets another."""
    async with a_scene() as scene:
        run = await scene.run(JobSpec("first", lasts=900), build(lasts=30, needs=("first",)))
        (idle,) = [one.id for one in scene.instances(run)]
        scene.mutes(idle)
        controller = scene.controller()
        await scene.passes(600, controller)
        scene.hub.lose(idle)
        await scene.passes(500, controller)
        assert scene.conclusions(run)["build"] is Conclusion.SUCCESS


async def test_a_job_that_failed_while_its_runner_was_online_is_not_lost_with_the_machine_later() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a", lasts=300, ends=Conclusion.FAILURE), JobSpec("long", lasts=1500))
        mute = scene.on(run, "a")
        scene.mutes(mute)
        controller = scene.controller()
        await scene.passes(600, controller)
        scene.dies(mute)
        await scene.passes(1500, controller)
        assert scene.hub.reruns == []
        assert scene.why(mute) == "a ended by itself: its runner was online"


async def test_nor_one_that_failed_right_before_its_machine_died() -> None:
    async with a_scene() as scene:
        no_agent_sees_the_end(scene)
        run = await scene.run(build("a", lasts=300, ends=Conclusion.FAILURE))
        dead = scene.on(run, "a")
        ended = asyncio.Event()
        scene.hub.on_event = lambda repository, number: ended.set() if scene.of(run).completed else None
        await ended.wait()
        scene.dies(dead)
        assert scene.worker(dead).activity
        await scene.passes(LOST_AFTER, scene.controller())
        assert scene.hub.reruns == []
        assert str(scene.said.done[-1]).endswith("a ended by itself: its runner was lost later")


async def test_jobs_run_again_that_ask_for_the_label_of_their_own_attempt_get_it() -> None:
    async with a_scene() as scene:
        run = scene.hub.start(REPOSITORY, build(lasts=300, label="{run}-{attempt}"))
        await scene.provides(f"{run}-1", 1)
        await asyncio.sleep(10)
        scene.dies(scene.on(run, "build"))
        await scene.passes(LOST_AFTER + GIVEN_UP_AFTER + 600, scene.controller())
        assert scene.of(run).jobs[0].label == f"{run}-2"
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS}
        assert scene.held() == []


async def test_a_runner_that_never_hears_of_its_jobs_end_is_ended_with_its_run_and_without_many_words() -> None:
    async with a_scene() as scene:
        no_agent_sees_the_end(scene)
        run = await scene.run(build(lasts=300))
        deaf = scene.on(run, "build")
        controller = scene.controller()
        await scene.passes(330, controller)
        assert scene.of(run).completed
        assert scene.state(deaf) == RUNNING  # it may be about to hear of it
        for _ in range(30):
            await scene.passes(10, controller)
            scene.said.done += await debts.pay_due(scene.ports(), scene.world.settings, 100, by="serve")
        assert scene.state(deaf) == TERMINATED
        assert [(one.what, dict(one.fields).get("reason")) for one in scene.said.done] == [
            ("instance given up", f"its agent reports a job of run {run}, which has completed"),
            ("debt paid", None),
            ("loss settled", "build succeeded"),
        ]


async def test_but_not_if_it_has_a_job_of_the_next_attempt() -> None:
    async with a_scene() as scene:
        no_agent_sees_the_end(scene)
        run = await scene.run(build(lasts=100))
        kept = scene.on(run, "build")
        await asyncio.sleep(200)
        scene.hub.rerun(scene.of(run), ("build",))
        scene.hub.lag = 60.0  # what is shown is the end of the first attempt
        await scene.passes(40, scene.controller())
        assert scene.on(run, "build") == kept
        assert scene.state(kept) == RUNNING
