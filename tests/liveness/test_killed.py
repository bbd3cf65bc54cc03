"""Sweeper and rescheduler killed at every callback: the next one makes exactly one transition and one requeue each."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from bullpen.config import Liveness as LivenessSettings
from bullpen.config import Settings
from bullpen.engines.memory import Rates
from bullpen.errors import Unavailable
from bullpen.liveness import LivenessController
from bullpen.model.instance import TERMINATED
from bullpen.model.job import QUEUED
from bullpen.model.worker import ACTIVE
from bullpen.sim.loop import VirtualLoop, virtual_run
from bullpen.sim.process import Process
from liveness.fixtures import Crew, passes

pytestmark = pytest.mark.slow

PATIENT = Settings(liveness=LivenessSettings(wait_for_runner=3600.0))
"""No runner lives here: the jobs that were given away wait for a runner longer than the histories last."""


def spawned(name: str, liveness: LivenessController, count: int) -> Process:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    process = Process(name)
    loop.spawn(process, goes_on(liveness, count))
    return process


async def goes_on(liveness: LivenessController, count: int) -> None:
    """Passes, as a service makes them: one that fails is followed by the next."""
    for _ in range(count):
        with suppress(Unavailable):
            await liveness.run_once()
        await asyncio.sleep(1.0)


async def stage(crew: Crew) -> None:
    """Three workers: one on a machine that dies with it, one with a job that has side effects, one plain; one lives."""
    await crew.machine("i-gone")
    await crew.machine("i-mute")
    await crew.beats("gone", instance_id="i-gone")
    await crew.beats("mute", instance_id="i-mute")
    await crew.beats("plain")
    await crew.beats("alive", lease=3600)
    for key in ("gone", "mute", "plain", "alive"):
        await crew.works(f"{key}-1", key)
        await crew.works(f"{key}-2", key, side_effects=key == "mute")
    await crew.beats("alive", lease=3600)
    crew.memory.yard.end("i-gone")
    await asyncio.sleep(15)


def wrong(crew: Crew) -> list[str]:
    """What is not as it must be once everything is paid."""
    broken = []
    for key in ("gone", "mute", "plain"):
        worker = crew.worker(key)
        if worker.state is ACTIVE or worker.owes_reschedule:
            broken.append(f"{key} is {worker.state} and owes: {worker.owes_reschedule}")
        if (count := crew.steps(key).count("lose_lease")) != 1:
            broken.append(f"{key} was lost {count} times")
        jobs = (crew.job(f"{key}-1"), crew.job(f"{key}-2"))
        moved_once = (QUEUED, 1)
        broken += [f"{job.id} is {job.state}, {job.losses}" for job in jobs if (job.state, job.losses) != moved_once]
    ended = {one.id for one in crew.memory.tables.instances.values() if one.state is TERMINATED}
    broken += [f"{one} is not ended" for one in ("i-gone", "i-mute") if one not in ended]
    broken += [f"the machine {one} lives" for one in crew.memory.yard.machines]
    if crew.worker("alive").state is not ACTIVE or crew.job("alive-1").worker != "alive":
        broken.append("the living one was touched")
    return broken


def killed_everywhere(play: Callable[[int], tuple[bool, list[str]]]) -> int:
    for step in range(1, 100_000):
        died, broken = play(step)
        assert not broken, f"killed at callback {step}: {broken}"
        if not died:
            return step
    raise AssertionError("it never ends")


def test_killed_at_any_callback_the_next_sweeper_finishes_once() -> None:
    def play(step: int) -> tuple[bool, list[str]]:
        async def history() -> tuple[bool, list[str]]:
            crew = Crew(PATIENT)
            await stage(crew)
            victim = spawned("victim", crew.liveness(), 12)
            victim.die_at = step
            await victim.ended()
            await passes(crew.liveness(), 15)
            return victim.dead, wrong(crew)

        return virtual_run(history(), allow_left_behind=True)

    assert killed_everywhere(play) > 200


@pytest.mark.parametrize("seed", range(1, 31))
def test_killed_beside_others_on_bad_ways_everything_happens_once(seed: int) -> None:
    async def history() -> list[str]:
        crew = Crew(PATIENT)
        await stage(crew)
        bad = Rates(latency=(0.0, 0.3), lost_request=0.02, lost_answer=0.02, slow_end=0.5)
        crowd = [spawned(f"sweeper {n}", crew.liveness(crew.process(rates=bad)), 40) for n in range(4)]
        for number, process in enumerate(crowd[:3]):
            process.die_at = 40 + 37 * seed % 400 + 60 * number
        await crowd[-1].ended()
        await passes(crew.liveness(), 20)
        return wrong(crew)

    assert virtual_run(history(), seed=seed, allow_left_behind=True) == []


async def test_a_sweeper_that_was_stopped_in_its_pass_and_goes_on_later_does_no_harm() -> None:
    crew = Crew(PATIENT)
    await stage(crew)
    slow = spawned("slow", crew.liveness(crew.process(rates=Rates(latency=(0.3, 0.3)))), 10)
    await asyncio.sleep(9.5)  # in a pass that has seen who stands still
    slow.pause()
    await passes(crew.liveness(), 12)
    answer = await crew.answered("plain", lease=3600)
    assert answer.resurrected
    slow.resume()
    await slow.ended()
    assert wrong(crew) == ["plain is active and owes: False"]
