"""Controllers killed anywhere, several at once, on bad ways: a lost job is run again once, and all is given back."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from bullpen.engines.memory import Rates
from bullpen.engines.memory.github import JobSpec
from bullpen.errors import Unavailable
from bullpen.ports import Conclusion, Ports
from bullpen.sim.loop import VirtualLoop, virtual_run
from bullpen.sim.process import Process
from bullpen.workflows.controller import WorkflowController
from fixtures import requests
from spread_marks import mostly_slow
from workflows.fixtures import Scene, a_scene, build

Stage = Callable[[Scene], Awaitable[str]]


async def goes_on(controller: WorkflowController, passes: int) -> None:
    """As a service does it: a pass that fails is followed by the next."""
    for _ in range(passes):
        with suppress(Unavailable):
            await controller.run_once()
        await asyncio.sleep(2.0)
    await controller.stop()


def spawned(scene: Scene, name: str, passes: int, ports: Ports | None = None) -> Process:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    process = Process(name)
    loop.spawn(process, goes_on(scene.controller(ports), passes))
    return process


async def die_and_be_noticed(scene: Scene, *instances: str) -> None:
    for one in instances:
        scene.dies(one)
    await asyncio.sleep(60)
    while any(not scene.worker(one).owes_reschedule for one in instances):
        await scene.passes(2)


# ---- what is to be done when controllers begin


async def a_runner_is_left(scene: Scene) -> str:
    """A job is lost, its run has completed, and a runner of its label lives."""
    run = await scene.run(build(lasts=50), build("test", lasts=20), runners=2)
    await die_and_be_noticed(scene, scene.on(run, "build"))
    await asyncio.sleep(600)
    return run


async def no_agent_has_reported(scene: Scene) -> str:
    """As `a_runner_is_left`, but its machine died before it could tell of the job."""
    scene.hub.on_work = lambda name, activity: None
    return await a_runner_is_left(scene)


async def no_runner_is_left(scene: Scene) -> str:
    """Two jobs are lost with all runners of their label, and their run has completed."""
    run = await scene.run(build("a", lasts=50), build("b", lasts=50), runners=2)
    await die_and_be_noticed(scene, scene.on(run, "a"), scene.on(run, "b"))
    await asyncio.sleep(600)
    return run


async def a_runner_is_mute(scene: Scene) -> str:
    """Its machine is alive, but silent: it has to be ended first."""
    run = await scene.run(build(lasts=50), build("test", lasts=20), runners=2)
    mute = scene.on(run, "build")
    scene.mutes(mute)
    scene.hub.lose(mute)
    await asyncio.sleep(60)
    while not scene.worker(mute).owes_reschedule:
        await scene.passes(2)
    await asyncio.sleep(600)
    return run


async def jobs_wait(scene: Scene) -> str:
    """A job waits for a label whose only runner died before it came."""
    run = await scene.run(JobSpec("first", lasts=80), build(lasts=50, needs=("first",)))
    await die_and_be_noticed(scene, *(one.id for one in scene.instances(run)))
    return run


async def it_is_over(scene: Scene) -> str:
    run = await scene.run(build(lasts=20), build("test", lasts=20), runners=2)
    await asyncio.sleep(30)
    return run


def wrong(scene: Scene, run: str, reruns: int) -> list[str]:
    """What is not as it must be when all is done."""
    broken = [f"{name} is {end}" for name, end in scene.conclusions(run).items() if end is not Conclusion.SUCCESS]
    if len(scene.hub.reruns) != reruns:
        broken.append(f"run again: {scene.hub.reruns}")
    broken += [f"{one} is not given back" for one in scene.held()]
    workers = scene.world.memory.tables.workers.values()
    return broken + [f"{one.id} owes" for one in workers if one.owes_reschedule]


def killed_everywhere(stage: Stage, reruns: int, stride: int) -> int:
    """How many callbacks the victim had; the next controller has to finish whatever it left."""

    async def history(step: int) -> tuple[bool, list[str]]:
        async with a_scene() as scene:
            run = await stage(scene)
            victim = spawned(scene, "victim", 45)
            victim.die_at = step
            await victim.ended()
            await scene.passes(300, scene.controller(), every=5.0)
            return victim.dead, wrong(scene, run, reruns)

    for step in range(1, 100_000, stride):
        died, broken = virtual_run(history(step), allow_left_behind=True)
        assert not broken, f"killed at callback {step}: {broken}"
        if not died:
            return step
    raise AssertionError("it never ends")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "reruns"),
    [
        (a_runner_is_left, 1),
        (no_agent_has_reported, 1),
        (no_runner_is_left, 1),
        (a_runner_is_mute, 1),
        (jobs_wait, 0),
        (it_is_over, 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_killed_at_any_callback_the_next_follower_finishes_once(stage: Stage, reruns: int) -> None:
    assert killed_everywhere(stage, reruns, stride=5) > 100


@pytest.mark.parametrize("seed", mostly_slow(range(1, 7), quick=2))
@pytest.mark.parametrize("stage", [a_runner_is_left, no_agent_has_reported, no_runner_is_left])
def test_three_at_once_on_bad_ways_run_it_again_once(stage: Stage, seed: int) -> None:
    async def history() -> list[str]:
        async with a_scene() as scene:
            run = await stage(scene)
            bad = Rates(latency=(0.0, 0.4), lost_request=0.03, lost_answer=0.03, throttled=0.03)
            crowd = [spawned(scene, f"controller {n}", 60, scene.ports(bad)) for n in range(3)]
            crowd[0].die_at = 100 + 61 * seed % 400
            await crowd[-1].ended()
            await scene.passes(300, scene.controller(), every=5.0)
            return wrong(scene, run, 1)

    assert virtual_run(history(), seed=seed, allow_left_behind=True) == []


async def test_a_follower_that_was_stopped_as_it_asked_for_a_re_run_and_goes_on_later_does_no_harm() -> None:
    async with a_scene() as scene:
        run = await a_runner_is_left(scene)
        ports = scene.ports(Rates(latency=(0.3, 0.3)))
        slow = spawned(scene, "slow", 5, ports)
        for _ in range(1000):
            await asyncio.sleep(0.1)
            if requests(ports)["workflows.rerun_job"]:
                break
        slow.pause()
        await scene.passes(60, scene.controller())
        assert len(scene.hub.reruns) == 1
        slow.resume()
        await slow.ended()
        await scene.passes(200, scene.controller(), every=5.0)
        assert wrong(scene, run, 1) == []
