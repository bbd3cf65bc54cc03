"""Jobs of dead workers given back to the queue, on SQLite: each by its own conditional write, all of them durable."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from bench.homes import a_home
from bench.table import Measurement, Row, row
from bench.workers import key_of, register
from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.liveness.reschedule import Rescheduler
from bullpen.model import job as jobs
from bullpen.model import worker as workers
from bullpen.model.job import Job
from bullpen.model.transition import Change
from bullpen.model.worker import Worker
from bullpen.ports import Ports
from bullpen.wiring import embedded

SETTINGS = Settings()
BY = "a benchmark"
DEAD = 100
BUDGETED = 10_000
A_WHILE = timedelta(hours=1)


def rescheduled(sizes: Sequence[int] = (1000, BUDGETED)) -> Iterator[Row]:
    for size in sizes:
        with a_home() as home:
            wall, cpu = asyncio.run(_reschedule(home, size))
        name = f"{size:,} jobs of {DEAD} dead workers rescheduled"
        yield row(name, wall, "s", "< 5" if size == BUDGETED else "")
        yield row(f"{name}: processor time per job", cpu / size * 1e6, "µs")


async def _reschedule(home: Path, size: int) -> tuple[float, float]:
    """From the moment at which all are declared lost until no job is left with any of them."""
    async with embedded(home, SETTINGS) as ports:
        await register(ports, DEAD, SETTINGS.timings.lease)
        await _assign(ports, size)
        await _lose_all(ports)
        wall, cpu = time.perf_counter(), time.process_time()
        done = await Rescheduler(ports, SETTINGS).run_once()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert (len(done.requeued), len(done.settled)) == (size, DEAD), done.alarms
        return wall, cpu


async def _assign(ports: Ports, size: int) -> None:
    now = ports.clock.now()
    submitted = jobs.Submitted(at=now, by=BY)
    queued = [jobs.submit(jobs.absent(f"j-{number:016x}", "run", ("true",)), submitted) for number in range(size)]
    given = await _landed(ports, queued)
    assigned = [
        jobs.assign(
            job,
            jobs.Assigned(
                at=now,
                by=BY,
                worker=key_of(number % DEAD),
                epoch=1,
                instance_id=key_of(number % DEAD)[:18],
                verify_by=now + A_WHILE,
            ),
        )
        for number, job in enumerate(given)
    ]
    await _landed(ports, assigned)


async def _lose_all(ports: Ports) -> None:
    stored = await ports.workers.listed(DEAD)
    lost = [workers.lose_lease(one, _expired(one)) for one in stored]
    landed = await ports.records.apply_each(lost)
    assert not any(isinstance(one, Conflict) for one in landed)


def _expired(one: Worker) -> workers.LeaseExpired:
    assert one.deadline is not None
    later = one.deadline + A_WHILE
    return workers.LeaseExpired(at=later, by=BY, deadline=one.deadline, cleanup_at=later + A_WHILE)


async def _landed(ports: Ports, changes: Sequence[Change[Job]]) -> list[Job]:
    found = await ports.records.apply_each(changes)
    landed = [one for one in found if not isinstance(one, Conflict)]
    assert len(landed) == len(changes)
    return landed


MEASUREMENTS = (Measurement("jobs of dead workers rescheduled", rescheduled),)
