"""What a scrape reads from the store: counts, and a bounded number of what waits or is overdue."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bullpen.concurrency import gather_or_cancel
from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.model.control import Control
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.worker import Worker
from bullpen.ports import InstanceGroup, Ports, ServiceNote

MOST_DUE = 1000  # debts and provisions that are counted one by one
MOST_WAITING = 500
MOST_RUNS = 50  # runs whose oldest jobs are read
JOBS_OF_RUN = 5  # lost ones come first, then the oldest: few jobs of a run are lost at the same time


@dataclass(frozen=True, slots=True)
class StoreRead:
    """One look at the store."""

    at: datetime
    census: Mapping[InstanceGroup, int]
    workers: Mapping[tuple[str, str], int]
    controls: Mapping[str, Control]
    tickets: Mapping[str, int]
    open: Mapping[str, list[Provision]]
    queued: Mapping[str, list[Job]]
    waiting: list[Provision]
    owing: list[Instance]
    owing_workers: list[Worker]
    pauses: list[Pause]
    servers: list[ServiceNote]
    scale_sets: Mapping[str, ScaleSet]
    sessions: Mapping[str, SetSession]


async def read_store(ports: Ports, settings: Settings) -> StoreRead:
    """Raise what the store raises."""
    now = ports.clock.now()
    classes = list(settings.classes)

    async def tickets() -> dict[str, int]:
        counts = await gather_or_cancel([ports.queue.count(name) for name in classes])
        return dict(zip(classes, counts, strict=True))

    async def open_provisions() -> dict[str, list[Provision]]:
        found = await gather_or_cancel([ports.records.open_provisions(name) for name in classes])
        return {name: some[:MOST_DUE] for name, some in zip(classes, found, strict=True)}

    async def queued_jobs() -> dict[str, list[Job]]:
        """By run: the oldest ones of each."""
        if settings.on_github:
            return {}
        runs = await ports.jobs.waiting_runs(MOST_RUNS)
        found = await gather_or_cancel([ports.jobs.queued(id, now, JOBS_OF_RUN) for id in runs])
        return dict(zip(runs, found, strict=True))

    async def sets() -> tuple[dict[str, ScaleSet], dict[str, SetSession]]:
        if not settings.on_github:
            return {}, {}
        scale_sets = await ports.records.scale_sets()
        return scale_sets, await ports.records.set_sessions() if scale_sets else {}

    found: list[Any] = await gather_or_cancel(
        [
            ports.records.census(),
            ports.workers.census(),
            ports.workers.controls(),
            tickets(),
            open_provisions(),
            queued_jobs(),
            ports.records.waiting_provisions(MOST_WAITING),
            ports.records.owing_instances(now, MOST_DUE),
            ports.workers.owing(MOST_DUE),
            ports.records.pauses(),
            ports.health.services(now),
            sets(),
        ]
    )
    *others, of_sets = found
    return StoreRead(now, *others, *of_sets)
