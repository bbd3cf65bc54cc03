"""Planted bugs: each breaks a promise, and a look at GitHub or at the pool says so. Without them nothing is broken."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bullpen.engines.memory.github import JobSpec
from bullpen.engines.memory.workflows import MemoryWorkflows
from bullpen.liveness import lost_worker as loss
from bullpen.liveness.lease import Sweeper
from bullpen.liveness.lost_worker import WorkerLoss
from bullpen.model import activity as activities
from bullpen.model.activity import Activity
from bullpen.model.worker import WorkerFate
from bullpen.ports import Conclusion, WorkflowJob, WorkflowRun
from bullpen.workflows.holdings import RunHoldings
from bullpen.workflows.machine_state import MachineStates
from bullpen.workflows.replace_runners import RunnerReplacement
from bullpen.workflows.rescue import WAIT, LossJudgement, LossVerdict, Rescue
from fixtures import requests
from workflows.fixtures import GIVEN_UP_AFTER, LOST_AFTER, REPOSITORY, a_scene, build, lose

pytestmark = pytest.mark.slow

Plant = Callable[[pytest.MonkeyPatch], None]
History = Callable[[], Awaitable[list[str]]]


# ---- histories: what they find broken


async def it_fails_by_itself_the_second_time() -> list[str]:
    async with a_scene(rescue_attempts=3) as scene:
        run = await scene.run(build(lasts=200, ends=Conclusion.FAILURE))
        await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER + 900, scene.controller())
        return [] if len(scene.hub.reruns) == 1 else [f"run again: {scene.hub.reruns}"]


async def others_of_its_run_go_on() -> list[str]:
    async with a_scene() as scene:
        run = await scene.run(build(), JobSpec("long", lasts=1500))
        await lose(scene, run, "build")
        ports = scene.ports()
        await scene.passes(900, scene.controller(ports))
        asked = requests(ports)["workflows.rerun_job"]
        return [f"asked {asked} times before the run had completed"] if asked else []


async def it_deploys() -> list[str]:
    async with a_scene() as scene:
        run = await scene.run(build(environment="production"))
        await lose(scene, run, "build")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        return ["a deployment was repeated"] if scene.hub.reruns else []


async def another_failed_by_itself() -> list[str]:
    async with a_scene() as scene:
        wrong = build("wrong", lasts=20, ends=Conclusion.FAILURE)
        run = await scene.run(build("a"), build("b"), wrong, runners=3)
        await lose(scene, run, "a", "b")
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        return ["a job that failed by itself was run again"] if scene.hub.reruns else []


async def it_succeeds_late() -> list[str]:
    async with a_scene() as scene:
        bad = build("bad", lasts=20, ends=Conclusion.FAILURE)
        run = await scene.run(build(lasts=300), bad, runners=2)
        scene.mutes(scene.on(run, "build"))
        await scene.passes(600, scene.controller())
        return [f"run again: {scene.hub.reruns}"] if scene.hub.reruns else []


async def its_runner_is_at_work() -> list[str]:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=3000))
        mute = scene.on(run, "build")
        scene.mutes(mute)
        await scene.passes(600, scene.controller())
        return [] if mute in scene.world.memory.yard.machines else ["a runner was ended under its job"]


async def github_misses_it_for_a_moment() -> list[str]:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=3000))
        mute = scene.on(run, "build")
        scene.mutes(mute)
        controller = scene.controller()
        await scene.passes(70, controller)
        seen = scene.world.memory.registrations[mute]
        scene.world.memory.registrations[mute] = replace(seen, online=False)
        await scene.passes(60, controller)
        scene.world.memory.registrations[mute] = seen
        await scene.passes(120, controller)
        return [] if mute in scene.world.memory.yard.machines else ["one look was enough to end it"]


async def no_machine_can_be_launched() -> list[str]:
    async with a_scene() as scene:
        run = await scene.run(build())
        await lose(scene, run, "build")
        scene.world.memory.yard.capacity = 0
        await scene.passes(GIVEN_UP_AFTER, scene.controller())
        return ["run again without runners"] if scene.hub.reruns else []


async def a_worker_lies() -> list[str]:
    async with a_scene() as scene:
        victim = await scene.run(build("theirs", lasts=100, ends=Conclusion.FAILURE))
        run = await scene.run(build())
        liar, theirs = scene.on(run, "build"), scene.of(victim).jobs[0]
        scene.world.tempers[liar].work(Activity(REPOSITORY, victim, 1, victim, theirs.runner, "theirs"))
        await asyncio.sleep(10)
        scene.dies(liar)
        await scene.passes(LOST_AFTER, scene.controller())
        return ["another run was run again"] if scene.hub.reruns else []


async def it_lost_all_its_runners() -> list[str]:
    async with a_scene() as scene:
        run = await scene.run(JobSpec("first", lasts=200), build(lasts=30, needs=("first",)))
        scene.dies(scene.instances(run)[0].id)
        await scene.passes(400, scene.controller())
        return [] if scene.of(run).completed else ["a job waits in vain"]


# ---- the bugs


def attempts_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    right = Rescue.rescue

    async def rescue(self: Rescue, run: WorkflowRun, held: RunHoldings) -> Any:
        moved = [
            replace(one, activity=replace(one.activity, attempt=run.attempt))
            for one in held.losses
            if one.activity is not None
        ]
        return await right(self, run, replace(held, losses=moved))

    async def replace_nothing(self: RunnerReplacement, run: WorkflowRun, held: Any) -> None:
        return None

    patch.setattr(Rescue, "rescue", rescue)
    patch.setattr(RunnerReplacement, "replace_lost", replace_nothing)
    any_failed_job_was_lost(patch)


def any_failed_job_was_lost(patch: pytest.MonkeyPatch) -> None:
    def judge(self: Rescue, run: WorkflowRun, loss: WorkerLoss, jobs: Sequence[WorkflowJob]) -> LossJudgement:
        failed = next((job for job in jobs if job.conclusion is Conclusion.FAILURE), None)
        return LossJudgement(LossVerdict.RERUN, job=failed) if failed is not None else WAIT

    patch.setattr(Rescue, "_judge", judge)


def completion_is_not_awaited(patch: pytest.MonkeyPatch) -> None:
    right = MemoryWorkflows.run

    async def run(self: MemoryWorkflows, repository: str, number: str) -> WorkflowRun:
        return replace(await right(self, repository, number), completed=True)

    patch.setattr(MemoryWorkflows, "run", run)
    patch.setattr(Rescue, "_judge", lambda self, run, loss, jobs: LossJudgement(LossVerdict.RERUN, job=jobs[0]))


def nothing_speaks_against_it(patch: pytest.MonkeyPatch) -> None:
    async def objection(self: Rescue, run: Any, jobs: Any, lost: Any) -> str:
        return ""

    patch.setattr(Rescue, "_objection", objection)


def online_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    async def offline(self: MachineStates, mute: Sequence[WorkerLoss]) -> list[WorkerLoss]:
        return list(mute)

    patch.setattr(MachineStates, "_offline", offline)


def retired_though_it_works(patch: pytest.MonkeyPatch) -> None:
    async def fates(self: Sweeper, condemned: Sequence[Any], seen: Any) -> list[WorkerFate]:
        return [WorkerFate.RETIRE for _ in condemned]

    patch.setattr(Sweeper, "_fates", fates)

    async def none_is_left(ports: Any, settings: Any, owing: Any) -> set[str]:
        return set()

    patch.setattr("bullpen.liveness.reschedule.left_to_runs", none_is_left)


def one_look_is_enough(patch: pytest.MonkeyPatch) -> None:
    async def offline(self: MachineStates, mute: Sequence[WorkerLoss]) -> list[WorkerLoss]:
        online = {one.name for one in await self._ports.ci.registrations() if one.online}
        return [one for one in mute if one.worker.instance_id not in online]

    patch.setattr(MachineStates, "_offline", offline)


def runners_are_not_provided_first(patch: pytest.MonkeyPatch) -> None:
    async def provide(self: Rescue, lost: Any) -> None:
        return None

    patch.setattr(Rescue, "_provide", provide)


def workers_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loss, "_credible", lambda settings, worker: activities.parse(worker.activity))


def idle_losses_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = loss.left_to_runs

    async def with_a_job(ports: Any, settings: Any, owing: Sequence[Any]) -> set[str]:
        return await right(ports, settings, [worker for worker in owing if worker.activity])

    patch.setattr("bullpen.liveness.reschedule.left_to_runs", with_a_job)


PLANTED: Sequence[tuple[Plant, History]] = [
    (attempts_are_not_compared, it_fails_by_itself_the_second_time),
    (completion_is_not_awaited, others_of_its_run_go_on),
    (nothing_speaks_against_it, it_deploys),
    (nothing_speaks_against_it, another_failed_by_itself),
    (any_failed_job_was_lost, it_succeeds_late),
    (online_is_not_asked, its_runner_is_at_work),
    (retired_though_it_works, its_runner_is_at_work),
    (one_look_is_enough, github_misses_it_for_a_moment),
    (runners_are_not_provided_first, no_machine_can_be_launched),
    (workers_are_believed, a_worker_lies),
    (idle_losses_are_forgotten, it_lost_all_its_runners),
]


@pytest.mark.parametrize(
    ("plant", "history"), PLANTED, ids=[f"{plant.__name__}-{history.__name__}" for plant, history in PLANTED]
)
async def test_a_planted_bug_is_caught(plant: Plant, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await history() == []
    plant(monkeypatch)
    assert await history() != []
