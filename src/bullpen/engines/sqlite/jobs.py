"""Jobs of the embedded CI in SQLite. Every query goes by an index that holds only what it may find."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bullpen.engines.sqlite.port import SqlitePort
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import JOBS
from bullpen.model.job import Job
from bullpen.model.times import to_micros
from bullpen.ports.store import Delta

_JOB = f"SELECT {', '.join(JOBS.columns)} FROM jobs"

QUEUED = (
    f"{_JOB} WHERE run_id = ? AND state = 'queued' AND (not_before IS NULL OR not_before <= ?)"
    "{suits} ORDER BY losses = 0, queued_at, job_index, id LIMIT ?"
)
RUNNERS_USED = "SELECT instance_id, finished_at FROM jobs WHERE run_id = ? ORDER BY id LIMIT ?"
HELD = f"{_JOB} WHERE worker = ? AND epoch <= ? AND state = 'running' ORDER BY epoch, id LIMIT ?"
UNVERIFIED = f"{_JOB} WHERE verify_by <= ? ORDER BY verify_by, id LIMIT ?"
NEXT_WAITING_RUN = "SELECT run_id FROM jobs WHERE run_id > ? AND state = 'queued' ORDER BY run_id LIMIT 1"
UNFINISHED = f"{_JOB} WHERE run_id = ? AND state <> 'finished' AND id > ? ORDER BY id LIMIT ?"
SOURCES = "SELECT DISTINCT source FROM jobs WHERE state <> 'finished' AND source <> ''"
VERSIONS = "SELECT id, version FROM jobs INDEXED BY jobs_of_run WHERE run_id = ? ORDER BY id LIMIT ?"
OF_RUN = f"{_JOB} WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?"


class SqliteJobs(SqlitePort):
    async def jobs(self, ids: Sequence[str]) -> dict[str, Job]:
        return await self._by_id(JOBS, ids)

    async def queued(
        self, run_id: str, now: datetime, limit: int, capabilities: Sequence[str] | None = None, without: str = ""
    ) -> list[Job]:
        suits, asked = "", list[str]()
        if capabilities is not None:
            suits += f" AND capability IN ({', '.join('?' * (len(capabilities) + 1))})"
            asked += ["", *capabilities]
        if without:
            suits += " AND avoid <> ?"
            asked.append(without)
        return await self._select(JOBS, QUEUED.format(suits=suits), run_id, to_micros(now), *asked, limit)

    async def runners_used(self, run_id: str, since: datetime, limit: int) -> list[str]:
        def read(snapshot: Snapshot) -> list[str]:
            rows = snapshot.execute(RUNNERS_USED, (run_id, limit))
            return sorted({id_ for id_, end in rows if id_ and (end is None or end >= earliest)})

        earliest = to_micros(since)
        return await self._database.read(read)

    async def held(self, worker: str, through_epoch: int, limit: int) -> list[Job]:
        return await self._select(JOBS, HELD, worker, through_epoch, limit)

    async def unverified(self, now: datetime, limit: int) -> list[Job]:
        return await self._select(JOBS, UNVERIFIED, to_micros(now), limit)

    async def waiting_runs(self, limit: int, after: str = "") -> list[str]:
        def read(snapshot: Snapshot) -> list[str]:
            # From run to run: one that has thousands of jobs in the queue costs no more than another.
            runs: list[str] = []
            while len(runs) < limit:
                row = snapshot.execute(NEXT_WAITING_RUN, (runs[-1] if runs else after,)).fetchone()
                if row is None:
                    break
                runs.append(row[0])
            return runs

        return await self._database.read(read)

    async def unfinished(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        return await self._select(JOBS, UNFINISHED, run_id, after, limit)

    async def changed(self, run_ids: Sequence[str], known: Mapping[str, int], limit: int) -> Delta[Job]:
        def versions(snapshot: Snapshot) -> dict[str, int]:
            found: dict[str, int] = {}
            for run_id in run_ids:
                found |= snapshot.execute(VERSIONS, (run_id, limit - len(found))).fetchall()
            return found

        return await self._delta(JOBS, versions, known)

    async def sources(self) -> set[str]:
        return {source for (source,) in await self._rows(SOURCES)}

    async def of_run(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        return await self._select(JOBS, OF_RUN, run_id, after, limit)
