"""The process that launches for a set is killed at every callback of its launch: another one launches, the jobs run
long before GitHub takes them back, and no machine is lost."""

import asyncio
from typing import Any

import pytest

from bullpen.refresh import launch
from bullpen.scale_sets import supply
from bullpen.sim import invariants
from bullpen.sim.agent import Temper
from bullpen.sim.loop import virtual_run
from bullpen.sim.process import Process, current_process
from scale_sets.fixtures import a_set_world, push, serve, session, settings_of, until_done
from scale_sets.watched import WatchedRuns

PARTS = 4
JOBS = 2
LASTS = 10.0
BOOTS_IN = 40.0
TAKEN_OVER = 30.0  # seconds: the lease of the holder, and what the next one needs to begin
BOUND = launch.ABANDONED + launch.UNANSWERED + TAKEN_OVER + BOOTS_IN + LASTS  # GitHub takes jobs back after 300 s
REST = 620.0  # seconds: a launch that has registered its machines, and did not say so, is over at its deadline


async def history(die_at: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Two jobs come, and the process that launches first dies at this callback of it, unless it is done before. Returns
    whether it is."""
    launching: list[Process] = []
    launched: list[Process] = []
    real = launch.launch

    async def watched_launch(*asked: Any) -> Any:
        process = current_process()
        assert process is not None
        if not launching:
            launching.append(process)
            process.die_at = process.steps + die_at
        done = await real(*asked)
        launched.append(process)
        return done

    monkeypatch.setattr(launch, "launch", watched_launch)
    async with a_set_world(settings_of(linger=5.0), temper=lambda n: Temper(boots_in=BOOTS_IN)) as world:
        watched = WatchedRuns(world)
        for name in ("web-1", "web-2"):
            serve(world, name)
        await asyncio.sleep(30)  # no runner waits any more for a job that was not announced
        launching.clear()
        launched.clear()
        run = push(world, jobs=JOBS, lasts=LASTS)
        took = await until_done(world, run)
        assert took < BOUND
        assert not any(job.lapses for job in session(world).waiting)
        assert set(watched.began.values()) == {1}
        await asyncio.sleep(REST)
        assert invariants.at_rest(world.memory, {}) == []
        assert world._launched <= 2 * JOBS + 1
        return launching[0] in launched


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_job_is_served_in_time_although_the_process_that_launches_for_it_is_killed(part: int) -> None:
    step = part + 1
    is_done = False
    while not is_done:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(supply, "PROBED", 0.0)  # otherwise one member of each session waits for five minutes
            try:
                is_done = virtual_run(history(step, patch), allow_left_behind=True)
            except AssertionError as exc:
                raise AssertionError(f"killed at callback {step} of the launch: {exc}") from exc
        step += PARTS
    assert step > 20, "the launch is too short"
