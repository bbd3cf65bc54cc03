"""Jobs of the embedded CI, and what they print, in memory."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from bullpen.engines.memory.faults import Faults
from bullpen.engines.memory.index import Index, Replica
from bullpen.model.job import FINISHED, QUEUED, RUNNING, Job

if TYPE_CHECKING:
    from bullpen.engines.memory.tables import Tables


class JobIndexes:
    """What is asked of jobs. All but `held` may lag: that none is held any more must be true when it is said."""

    def __init__(self, lag: float) -> None:
        self.queued = Index[Job](
            lambda j: (j.run_id, (not j.losses, j.queued_at, j.index)) if j.state is QUEUED else None
        )
        self.waiting = Index[Job](lambda j: ("", j.run_id) if j.state is QUEUED else None)
        self.unverified = Index[Job](lambda j: ("", j.verify_by) if j.verify_by else None)
        self.unfinished = Index[Job](lambda j: (j.run_id, j.id) if j.state is not FINISHED else None)
        self.of_run = Index[Job](lambda j: (j.run_id, j.id))
        self.purgeable = Index[Job](lambda j: ("", j.purge_at) if j.purge_at else None)
        self.held = Index[Job](lambda j: (j.worker, j.epoch) if j.state is RUNNING else None)
        self._lagging = Replica(
            lag, self.queued, self.waiting, self.unverified, self.unfinished, self.of_run, self.purgeable
        )

    def follow(self, record_id: str, record: Job | None) -> None:
        self._lagging.follow(record_id, record)
        if record is None:
            self.held.remove(record_id)
        else:
            self.held.put(record)

    def catch_up(self) -> None:
        self._lagging.catch_up()


class MemoryJobs:
    """One process's access to the jobs."""

    def __init__(self, tables: "Tables", faults: Faults) -> None:
        self._tables = tables
        self._faults = faults

    async def jobs(self, ids: Sequence[str]) -> dict[str, Job]:
        stored = self._tables.jobs
        return await self._faults.call("jobs.jobs", lambda: {i: stored[i] for i in ids if i in stored})

    async def queued(
        self, run_id: str, now: datetime, limit: int, capabilities: Sequence[str] | None = None, without: str = ""
    ) -> list[Job]:
        def suits(job: Job) -> bool:
            able = capabilities is None or not job.capability or job.capability in capabilities
            return able and not (without and job.avoid == without)

        def ready() -> list[Job]:
            queued = self._indexes().queued.walk(run_id)
            now_due = (job for job in queued if job.not_before is None or job.not_before <= now)
            return list(islice(filter(suits, now_due), limit))

        return await self._faults.call("jobs.queued", ready)

    async def held(self, worker: str, through_epoch: int, limit: int) -> list[Job]:
        def held() -> list[Job]:
            jobs = self._indexes().held.walk(worker)
            return list(islice(takewhile(lambda job: job.epoch <= through_epoch, jobs), limit))

        return await self._faults.call("jobs.held", held)

    async def unverified(self, now: datetime, limit: int) -> list[Job]:
        def overdue() -> list[Job]:
            jobs = self._indexes().unverified.walk()
            return list(islice(takewhile(lambda job: job.verify_by is not None and job.verify_by <= now, jobs), limit))

        return await self._faults.call("jobs.unverified", overdue)

    async def waiting_runs(self, limit: int, after: str = "") -> list[str]:
        def waiting() -> list[str]:
            runs = dict.fromkeys(job.run_id for job in self._indexes().waiting.walk())
            return list(islice((run_id for run_id in runs if run_id > after), limit))

        return await self._faults.call("jobs.waiting_runs", waiting)

    async def unfinished(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        return await self._faults.call(
            "jobs.unfinished", lambda: list(islice(self._indexes().unfinished.walk(run_id, after), limit))
        )

    async def of_run(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        return await self._faults.call(
            "jobs.of_run", lambda: list(islice(self._indexes().of_run.walk(run_id, after), limit))
        )

    def _indexes(self) -> JobIndexes:
        self._tables.job_indexes.catch_up()
        return self._tables.job_indexes
