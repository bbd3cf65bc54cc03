"""Whatever happens to messages, sessions and processes: every job runs, on one runner, and nothing stays registered.

10,000 jobs in 20 histories. `make quick` runs the first.
"""

import asyncio
from random import Random

import pytest

from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.model.instance import LIVE
from bullpen.ports import Conclusion
from bullpen.sim import invariants
from bullpen.sim.world import World
from fixtures import records
from scale_sets.fixtures import a_set_world, hub_of, members, push, serve, set_of, settings_of, until_done
from scale_sets.watched import Watched

SEEDS = range(20)
JOBS = 500
MOST = 40
TROUBLES = SetTroubles(
    lost=0.05,
    late=0.1,
    doubled=0.1,
    unreadable_entry=0.05,
    unreadable_body=0.03,
    unreadable=0.01,
    unassigned=0.05,
    false_end=0.02,
    dropped=0.01,
    empty=0.05,
    unannounced=0.3,
    idle_end=0.3,
    ghost=0.01,
    busy_known_after=30.0,
    statistics_lag=0.5,
)


async def a_history(world: World, random: Random, jobs: int, minutes: float, replicas: int) -> list[str]:
    """Pushes at random moments, while processes of `serve` are killed and started again; returns the runs."""
    names = [f"web-{n}" for n in range(replicas)]
    serving = {name: serve(world, name, skew=random.uniform(-5, 5)) for name in names}
    runs: list[str] = []
    left = jobs
    while left > 0:
        await asyncio.sleep(random.expovariate(jobs / 4 / (minutes * 60)))
        count = min(left, random.choice([1, 1, 2, 4, 12]))
        runs.append(push(world, count, lasts=random.uniform(3, 60)))
        left -= count
        if random.random() < 0.06:
            name = random.choice(names)
            serving[name].kill()
            serving[name] = serve(world, f"{name}.{len(runs)}", skew=random.uniform(-5, 5))
        if random.random() < 0.02:
            hub_of(world).sets.drop(set_of(world).id)
        assert invariants.always(world.memory) == []
        assert len(members(world)) <= MOST
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_every_job_runs_once_and_nothing_stays_registered(seed: int) -> None:
    random = Random(seed)
    async with a_set_world(settings_of(idle_target=5, max=MOST), seed=seed) as world:
        watched = Watched(world)
        hub_of(world).sets.troubles = TROUBLES
        runs = await a_history(world, random, jobs=JOBS, minutes=10, replicas=3)
        hub_of(world).sets.troubles = SetTroubles()
        await until_done(world, *runs, within=3600.0)
        found = [job for run in runs for job in hub_of(world).runs[run].jobs]
        assert {job.conclusion for job in found} == {Conclusion.SUCCESS}
        assert len(watched.began) == JOBS
        assert set(watched.began.values()) == {1}
        assert watched.ended_under_a_job == []
        await asyncio.sleep(600)
        assert members(world) == []
        assert set_of(world).runners == {}
        assert [one for one in records(world, *LIVE) if one.run_id] == []
