"""Notes only wake the controller, polling finds the rest, and runs without runners of the pool cost nothing."""

import asyncio

import pytest

from bullpen.engines.memory import Failure
from bullpen.engines.memory.github import JobSpec
from bullpen.errors import Outdated, Throttled
from bullpen.ports import Ports, WorkflowRun
from bullpen.sim.agent import Temper
from bullpen.workflows import controller as controllers
from bullpen.workflows.holdings import RunHoldings
from bullpen.workflows.reconcile_run import RunReconciler
from fixtures import faults, requests
from workflows.fixtures import REPOSITORY, Scene, a_scene, build


def asked(ports: Ports) -> int:
    """Requests to GitHub."""
    return sum(count for kind, count in requests(ports).items() if kind.startswith(("workflows.", "ci.")))


async def settled(scene: Scene) -> controllers.WorkflowController:
    """A controller that has just polled."""
    controller = scene.controller()
    await controller.run_once()
    return controller


async def test_a_note_of_a_run_that_ended_has_it_released_at_once() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=30))
        controller = await settled(scene)
        scene.hub.on_event = controller.note
        await scene.passes(40, controller)
        assert scene.instances(run) == []


async def test_a_note_that_is_lost_is_made_up_for_by_polling() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=30))
        controller = await settled(scene)
        await scene.passes(50, controller)
        assert scene.instances(run) != []
        await scene.passes(20, controller)
        assert scene.instances(run) == []


async def test_notes_that_come_again_early_and_out_of_order_do_no_harm() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=30))
        ports = scene.ports()
        controller = scene.controller(ports)
        for _ in range(3):
            for _ in range(5):
                controller.note(REPOSITORY, run)
            await scene.passes(2, controller)
        assert len(scene.instances(run)) == 1
        assert requests(ports)["workflows.run"] == 3  # one for each pass, however many notes


async def test_github_is_never_asked_about_runs_for_which_the_pool_holds_nothing() -> None:
    async with a_scene() as scene:
        foreign = scene.hub.start(REPOSITORY, JobSpec("elsewhere"))
        ports = scene.ports()
        controller = scene.controller(ports)
        for _ in range(100):
            controller.note(REPOSITORY, foreign)
            controller.note("acme/other", "999")
            await scene.passes(2, controller)
        assert asked(ports) == 0
        assert (await controller.reconcile_all()).alarms == []
        assert asked(ports) == 0


@pytest.mark.slow
async def test_polling_costs_one_request_a_minute_for_each_run_that_holds_instances_whatever_there_was() -> None:
    async with a_scene() as scene:
        for _ in range(5):
            await scene.run(build(lasts=10))
        await scene.passes(120, scene.controller())
        assert scene.held() == []
        for _ in range(2):
            await scene.run(build(lasts=5000))
        ports = scene.ports()
        await scene.passes(600, scene.controller(ports))
        assert asked(ports) == requests(ports)["workflows.run"]
        assert 18 <= asked(ports) <= 22
        assert sum(requests(ports).values()) < 80


async def test_a_note_that_comes_while_its_run_is_looked_at_is_heeded_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=3000))
        ports = scene.ports()
        controller = scene.controller(ports)
        answer = asyncio.Event()
        ask = ports.workflows.run

        async def slow(repository: str, number: str) -> WorkflowRun:
            found = await ask(repository, number)
            await answer.wait()
            return found

        monkeypatch.setattr(ports.workflows, "run", slow)
        await controller.run_once()
        controller.note(REPOSITORY, run)
        await controller.run_once()
        assert requests(ports)["workflows.run"] == 1
        answer.set()
        await scene.passes(4, controller)
        assert requests(ports)["workflows.run"] == 2


async def test_a_long_look_at_one_run_does_not_keep_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_scene() as scene:
        slow, fast = await scene.run(build(lasts=3000)), await scene.run(build(lasts=20))
        ports = scene.ports()
        controller = scene.controller(ports)
        ask = ports.workflows.run

        async def sometimes_slow(repository: str, number: str) -> WorkflowRun:
            if number == slow:
                await asyncio.sleep(500)
            return await ask(repository, number)

        monkeypatch.setattr(ports.workflows, "run", sometimes_slow)
        await scene.passes(100, controller)
        assert scene.instances(fast) == []
        await controller.stop()


async def test_the_repository_of_a_run_comes_from_the_records_and_from_a_note_only_where_they_have_none() -> None:
    async with a_scene(scope="acme", rescue=("*",)) as scene:
        run = await scene.run(build(lasts=20))
        unnamed = scene.hub.start(REPOSITORY, build(lasts=20))
        await scene.provides(unnamed, 1, repository="")
        await asyncio.sleep(30)
        ports = scene.ports()
        controller = scene.controller(ports)
        controller.note("acme/evil", run)
        await scene.passes(4, controller)
        assert scene.instances(run) == []
        assert len(scene.instances(unnamed)) == 1
        controller.note(REPOSITORY, unnamed)
        await scene.passes(4, controller)
        assert scene.instances(unnamed) == []


async def test_a_flood_of_notes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "MOST_NOTES", 10)
    async with a_scene() as scene:
        controller = scene.controller()
        for number in range(1000):
            controller.note(REPOSITORY, str(number))
        assert len(controller._noted) == 10


async def test_github_that_asks_for_rest_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=20))
        ports = scene.ports()
        controller = scene.controller(ports)

        async def throttled(repository: str, number: str) -> WorkflowRun:
            raise Throttled("too many requests", retry_after=300)

        ask = ports.workflows.run
        monkeypatch.setattr(ports.workflows, "run", throttled)
        await scene.passes(4, controller)
        monkeypatch.setattr(ports.workflows, "run", ask)
        controller.note(REPOSITORY, run)
        await scene.passes(280, controller)
        assert asked(ports) == 0
        await scene.passes(30, controller)
        assert scene.instances(run) == []


async def test_a_look_that_fails_is_said_and_tried_again_less_and_less_often() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=3000))
        ports = scene.ports()
        faults(ports).fail_next("workflows.run", *[Failure.LOST_REQUEST] * 1000)
        await scene.passes(600, scene.controller(ports))
        assert scene.alarms("cannot reconcile run", run=run, repository=REPOSITORY)
        assert 10 <= requests(ports)["workflows.run"] <= 25


async def test_a_pass_that_fails_forgets_no_note() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=20))
        ports = scene.ports()
        controller = scene.controller(ports)
        await controller.run_once()
        await asyncio.sleep(20)
        faults(ports).fail_next("records.live", Failure.LOST_REQUEST)
        controller.note(REPOSITORY, run)
        await scene.passes(6, controller)
        assert scene.instances(run) == []


@pytest.mark.parametrize("failure", [Outdated("a newer program is at work"), RuntimeError("a bug")])
async def test_an_unexpected_error_is_raised_and_the_others_are_reconciled(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene() as scene:
        broken, sound = await scene.run(build(lasts=20)), await scene.run(build(lasts=20))
        await asyncio.sleep(20)
        right = RunReconciler.reconcile

        async def reconcile(self: RunReconciler, held: RunHoldings) -> None:
            if held.run == broken:
                raise failure
            await right(self, held)

        monkeypatch.setattr(RunReconciler, "reconcile", reconcile)
        with pytest.raises(type(failure)):
            await scene.controller().run_once()
        assert scene.instances(sound) == []


async def test_a_follower_at_rest_has_given_back_what_it_was_fetching() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("a"), build("b"))
        scene.dies(scene.on(run, "a"))
        controller = scene.controller()
        scene.world.temper = lambda n: Temper(boots_in=100)
        while not _fetching(scene):
            await scene.passes(2, controller)
        await controller.stop()
        assert not _fetching(scene)


def _fetching(scene: Scene) -> bool:
    return any(one.state == "open" for one in scene.world.memory.tables.provisions.values())
