"""The GitHub of the simulator keeps to the rules of the real one."""

import asyncio

import pytest

from bullpen.engines.memory import Memory
from bullpen.engines.memory.github import LEASE, JobSpec
from bullpen.errors import Conflict, NotFound
from bullpen.ports import Conclusion, Ports, Removal

WIDGETS = "acme/widgets"


def a_hub() -> tuple[Memory, Ports]:
    memory = Memory(github=True)
    return memory, memory.ports()


async def test_a_runner_takes_a_job_of_its_label_and_is_busy_with_it() -> None:
    memory, ports = a_hub()
    assert memory.hub is not None
    run = memory.hub.start(WIDGETS, JobSpec("build", "{run}", lasts=60))
    await ports.ci.register("i-1", "other", "aaaa")
    (job,) = await ports.workflows.jobs(WIDGETS, run, 1)
    assert job.waits
    known = await ports.ci.register("i-2", run, "bbbbbbbbbbbb")
    assert known is not None
    assert known.runner == "bullpen.i-2.bbbbbbbb"
    (job,) = await ports.workflows.jobs(WIDGETS, run, 1)
    assert (job.runner, job.waits) == (known.runner, False)
    assert await ports.ci.remove(known.runner) is Removal.BUSY
    await asyncio.sleep(61)
    assert (await ports.workflows.run(WIDGETS, run)).conclusion == "success"
    assert await ports.ci.remove(known.runner) is Removal.REMOVED


async def test_a_dead_runners_job_fails_after_ten_minutes() -> None:
    memory, ports = a_hub()
    assert memory.hub is not None
    run = memory.hub.start(WIDGETS, JobSpec("build", "{run}"))
    await ports.ci.register("i-1", run, "aaaa")
    memory.hub.lose("i-1")
    (runner,) = await ports.ci.registrations()
    assert (runner.online, runner.busy) == (False, True)
    await asyncio.sleep(LEASE - 1)
    assert not (await ports.workflows.run(WIDGETS, run)).completed
    await asyncio.sleep(2)
    assert (await ports.workflows.run(WIDGETS, run)).conclusion == "failure"


async def test_nothing_is_run_again_before_the_run_has_completed_nor_from_an_older_attempt() -> None:
    memory, ports = a_hub()
    assert memory.hub is not None
    failing = JobSpec("build", lasts=10, ends=Conclusion.FAILURE)
    run = memory.hub.start(WIDGETS, failing, JobSpec("after", needs=("build",)), JobSpec("slow", lasts=50))
    await asyncio.sleep(20)
    build = next(job for job in await ports.workflows.jobs(WIDGETS, run, 1) if job.name == "build")
    for early in (ports.workflows.rerun_job(WIDGETS, build.id), ports.workflows.rerun_failed(WIDGETS, run)):
        with pytest.raises(Conflict, match="already running"):
            await early
    await asyncio.sleep(40)
    await ports.workflows.rerun_job(WIDGETS, build.id)
    assert (await ports.workflows.run(WIDGETS, run)).attempt == 2
    await asyncio.sleep(70)
    with pytest.raises(Conflict, match="current attempt"):
        await ports.workflows.rerun_job(WIDGETS, build.id)
    assert memory.hub.reruns == [(run, 1, ("build",))]


async def test_a_run_of_another_repository_is_not_there() -> None:
    memory, ports = a_hub()
    assert memory.hub is not None
    run = memory.hub.start(WIDGETS, JobSpec("build"))
    with pytest.raises(NotFound):
        await ports.workflows.run("acme/other", run)


async def test_what_is_shown_may_lag() -> None:
    memory, ports = a_hub()
    assert memory.hub is not None
    run = memory.hub.start(WIDGETS, JobSpec("build", lasts=10))
    memory.hub.lag = 5.0
    await asyncio.sleep(12)
    assert not (await ports.workflows.run(WIDGETS, run)).completed
    await asyncio.sleep(4)
    assert (await ports.workflows.run(WIDGETS, run)).completed
