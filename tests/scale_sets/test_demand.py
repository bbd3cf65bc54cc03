"""Supply reads a `Demand` and nothing else of what listens to the CI: here, one that lists the queued jobs of a CI."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from bullpen.engines.memory.github import GithubJob
from bullpen.model.instance import IDLE
from bullpen.model.set_session import WaitingJob
from bullpen.ports.demand import Demand, JobDemand
from bullpen.scale_sets.session import StandBy
from bullpen.scale_sets.started_jobs import StartedJobs
from bullpen.scale_sets.supplier import Supplier
from bullpen.sim.world import World
from fixtures import machines, records, with_pool
from scale_sets.fixtures import (
    REPOSITORY,
    SET,
    a_set_world,
    hub_of,
    members,
    push,
    session,
    set_of,
    settings_of,
    until_done,
)


class QueuedJobs:
    """The demand of a CI that assigns no job to a set, and that has a list of jobs: each with an id and a runner."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[int, datetime] = {}
        self.outage = ""

    def current(self) -> JobDemand | None:
        jobs, time = self._listed(), asyncio.get_running_loop().time()
        return JobDemand(len(jobs), sum(bool(job.runner) for job in jobs), counted_at=time, heard_at=time)

    def trouble(self) -> str:
        return self.outage

    def is_limited(self) -> bool:
        return False

    def waiting(self, now: datetime) -> Sequence[WaitingJob]:
        jobs = [job for job in self._listed() if not job.runner]
        self._since = {job.id: self._since.get(job.id, now) for job in jobs}
        return [WaitingJob(str(job.id), self._since[job.id], REPOSITORY, name=job.spec.name) for job in jobs]

    def _listed(self) -> list[GithubJob]:
        jobs = [job for run in hub_of(self._world).runs.values() for job in run.jobs]
        return [job for job in jobs if job.queued and not job.completed and job.label == SET]


@asynccontextmanager
async def supplied(world: World, demand: Demand) -> AsyncIterator[Supplier]:
    """A supplier at work for the set of the world, and no listener."""
    ports = world.ports()
    record = await StandBy(ports, world.settings.timings.lease, "web-1").try_take(SET, None)
    assert record is not None
    scale_set = (await ports.records.scale_sets())[SET]
    started = StartedJobs((), ports.ci.instance_of)
    supplier = Supplier(ports, world.settings, scale_set, demand, record, started, linger=30.0, on_missing=lambda: None)
    task = asyncio.create_task(supplier.run())
    yield supplier
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_jobs_of_another_demand_get_runners_and_the_runners_go_back() -> None:
    async with a_set_world() as world:
        await with_pool(world, 2, trust_domain=REPOSITORY)
        async with supplied(world, QueuedJobs(world)):
            run = push(world, 2, lasts=30.0)
            assert await until_done(world, run, within=60.0) < 40.0
            assert set_of(world).session is None
            assert {hub_of(world).instance_of(job.runner) for job in hub_of(world).runs[run].jobs} == set(
                machines(world)
            )
            await asyncio.sleep(500)  # as long as one waits for jobs that were never announced
            assert members(world) == []
            assert len(records(world, IDLE)) == 2


async def test_a_job_of_another_demand_waits_with_its_name_and_a_reason() -> None:
    async with a_set_world(settings_of(max=1)) as world:
        await with_pool(world, 2, trust_domain=REPOSITORY)
        demand = QueuedJobs(world)
        async with supplied(world, demand):
            push(world, 2, lasts=600.0)
            await asyncio.sleep(71)
            (job,) = session(world).waiting
            assert (job.name, job.repository) == ("job-1", REPOSITORY)
            assert world.clock.now() - job.since <= timedelta(seconds=71)
            assert "max" in job.why or "largest" in job.why
            demand.outage = "the CI does not answer"
            await asyncio.sleep(5)
            assert [one.why for one in session(world).waiting] == [demand.outage]
