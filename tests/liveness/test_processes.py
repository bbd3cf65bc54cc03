"""Sweepers as real processes on one SQLite store: one transition and one requeue each, whichever is killed."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from bullpen.config import Liveness, Settings
from bullpen.liveness.heartbeat import record_heartbeats, record_validated
from bullpen.liveness.schema import HeartbeatRequest
from bullpen.model import job as jobs
from bullpen.model.job import QUEUED
from bullpen.model.times import later
from bullpen.model.worker import ACTIVE, INACTIVE
from bullpen.ports import Ports
from bullpen.wiring import embedded
from engines.sqlite.processes import a_line_of, a_process

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]

SETTINGS = Settings(liveness=Liveness(min_lease=1.0, confirm=6.0))
DEAD, LIVING, JOBS = 30, 5, 4

SWEEPS = """
import asyncio, pathlib, sys
from bullpen.config import Settings
from bullpen.liveness import LivenessController
from bullpen.wiring import embedded

async def main():
    async with embedded(pathlib.Path(sys.argv[1]), Settings()) as ports:
        liveness = LivenessController(ports, Settings())
        print("ready", flush=True)
        sys.stdin.readline()
        lost, moved = [], []
        for _ in range(110):
            done = await liveness.run_once()
            lost += done.sweep.lost
            moved += done.rescheduling.requeued
            await asyncio.sleep(0.1)
        print(*lost, flush=True)
        print(*moved, flush=True)

asyncio.run(main())
"""


async def stage(ports: Ports) -> None:
    """Workers of machines that no record knows any more, with jobs, and some that live."""
    dead = [HeartbeatRequest(key=f"dead{n:02}", lease=1) for n in range(DEAD)]
    living = [HeartbeatRequest(key=f"living{n}", lease=3600) for n in range(LIVING)]
    await record_validated(ports, SETTINGS, [(one, f"i-{n}") for n, one in enumerate(dead)])
    await record_heartbeats(ports, SETTINGS, living)
    now = ports.clock.now()
    for worker in [*dead, *living]:
        for number in range(JOBS):
            job = jobs.absent(f"j-{worker.key}-{number}", "run-1", ("true",))
            (queued,) = await ports.records.apply(jobs.submit(job, jobs.Submitted(at=now, by="a test")))
            given = jobs.Assigned(
                at=now, by="a test", worker=worker.key, epoch=1, instance_id="", verify_by=later(now, 600)
            )
            await ports.records.apply(jobs.assign(queued, given))


@pytest.mark.parametrize(("sweepers", "killed"), [(1, 0), (2, 0), (4, 0), (8, 0), (8, 3)])
async def test_any_number_of_processes_declare_each_worker_lost_once(
    tmp_path: Path, sweepers: int, killed: int
) -> None:
    async with embedded(tmp_path, SETTINGS) as ports:
        await stage(ports)
        with ExitStack() as stack:
            crowd = [stack.enter_context(a_process(SWEEPS, tmp_path)) for _ in range(sweepers)]
            for process in crowd:
                assert await asyncio.to_thread(a_line_of, process) == "ready"
            for process in crowd:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            for process in crowd[:killed]:
                await asyncio.sleep(2.4)
                process.kill()
            said = [
                (await asyncio.to_thread(a_line_of, process), await asyncio.to_thread(a_line_of, process))
                for process in crowd[killed:]
            ]
        lost = [key for keys, _ in said for key in keys.split()]
        moved = [job for _, ids in said for job in ids.split()]
        assert len(lost) == len(set(lost))
        assert len(moved) == len(set(moved))
        if not killed:
            assert (len(lost), len(moved)) == (DEAD, DEAD * JOBS)
        found = {one.id: one for one in await ports.workers.listed(100)}
        assert {found[f"dead{n:02}"].state for n in range(DEAD)} == {INACTIVE}
        assert {found[f"living{n}"].state for n in range(LIVING)} == {ACTIVE}
        assert not any(one.owes_reschedule for one in found.values())
        all_jobs = await ports.jobs.of_run("run-1", 1000)
        assert sum(job.state is QUEUED for job in all_jobs) == DEAD * JOBS
        assert {job.losses for job in all_jobs if job.state is QUEUED} == {1}
