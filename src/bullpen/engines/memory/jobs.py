"""Jobs of the embedded CI in memory."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.tables import Tables
from bullpen.model.job import FINISHED, Job, has_used
from bullpen.ports.store import Delta


class MemoryJobs:
    def __init__(self, tables: Tables, faults: Faults) -> None:
        self._tables = tables
        self._indexes = tables.job_indexes
        self._faults = faults

    @request("jobs.jobs")
    def jobs(self, ids: Sequence[str]) -> dict[str, Job]:
        return {id: self._tables.jobs[id] for id in ids if id in self._tables.jobs}

    @request("jobs.queued")
    def queued(
        self, run_id: str, now: datetime, limit: int, capabilities: Sequence[str] | None = None, without: str = ""
    ) -> list[Job]:
        def suits(job: Job) -> bool:
            able = capabilities is None or not job.capability or job.capability in capabilities
            return able and not (without and job.avoid == without)

        due = (job for job in self._indexes.queued.walk(run_id) if job.not_before is None or job.not_before <= now)
        return list(islice(filter(suits, due), limit))

    @request("jobs.runners_used")
    def runners_used(self, run_id: str, since: datetime, limit: int) -> list[str]:
        page = self._indexes.of_run.page(limit, run_id, "")
        return sorted({job.instance_id for job in page if has_used(job, since)})

    @request("jobs.held")
    def held(self, worker: str, through_epoch: int, limit: int) -> list[Job]:
        return list(islice(self._indexes.held.up_to(through_epoch, worker), limit))

    @request("jobs.unverified")
    def unverified(self, now: datetime, limit: int) -> list[Job]:
        return list(islice(self._indexes.unverified.up_to(now), limit))

    @request("jobs.waiting_runs")
    def waiting_runs(self, limit: int, after: str = "") -> list[str]:
        runs = dict.fromkeys(job.run_id for job in self._indexes.waiting.walk())
        return list(islice((run_id for run_id in runs if run_id > after), limit))

    @request("jobs.unfinished")
    def unfinished(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        return self._indexes.unfinished.page(limit, run_id, after)

    @request("jobs.changed")
    def changed(self, run_ids: Sequence[str], known: Mapping[str, int], limit: int) -> Delta[Job]:
        walk = (job for run_id in run_ids for job in self._indexes.of_run.walk(run_id))
        there = {job.id: job for job in islice(walk, limit)}
        changed = [job for job in there.values() if known.get(job.id) != job.version]
        return Delta(changed, [id for id in known if id not in there])

    @request("jobs.sources")
    def sources(self) -> set[str]:
        return {job.source for job in self._tables.jobs.values() if job.source and job.state is not FINISHED}

    @request("jobs.of_run")
    def of_run(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        return self._indexes.of_run.page(limit, run_id, after)
