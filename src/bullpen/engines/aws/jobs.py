"""Jobs of Bullpen's own CI in DynamoDB. Indexes say where to look, the jobs themselves whether they are asked for."""

from collections.abc import Sequence
from datetime import datetime

from bullpen.engines.aws.expressions import held_kind
from bullpen.engines.aws.items import decode, id_of, key_of, moment
from bullpen.engines.aws.records import read_listed
from bullpen.engines.aws.table import TableClient
from bullpen.model.job import FINISHED, QUEUED, RUNNING, Job

PAGE = 100
"""Keys read at a time where many of them may not suit: one read by key of them all."""


class DynamoJobs:
    """`ports.Jobs` on the table of a pool."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def jobs(self, ids: Sequence[str]) -> dict[str, Job]:
        items = await self._table.get_many([key_of(Job, id) for id in ids])
        return {id_of(Job, item): decode(Job, item) for item in items}

    async def queued(
        self, run_id: str, now: datetime, limit: int, capabilities: Sequence[str] | None = None, without: str = ""
    ) -> list[Job]:
        def suits(job: Job) -> bool:
            ready = job.state is QUEUED and (job.not_before is None or job.not_before <= now)
            able = capabilities is None or not job.capability or job.capability in capabilities
            return ready and able and not (without and job.avoid == without)

        walk = self._table.walk(("todoKey", f"QUEUED#{run_id}"), index="todo", page=PAGE)
        return await read_listed(self._table, walk, Job, suits, limit)

    async def held(self, worker: str, through_epoch: int, limit: int) -> list[Job]:
        # By the markers that land with the jobs, not by an index: that none is left must be true when it is said.
        until = ("SK", "<", f"ID#{through_epoch + 1:012}")
        walk = self._table.walk(("PK", f"TYPE#{held_kind(worker)}"), until, page=limit)
        held: list[Job] = []
        while not walk.over and len(held) < limit:
            ids = [item["SK"]["S"].split("#", 2)[2] for item in await walk.page()]
            jobs = await self.jobs(ids)
            # A marker read just before its job was given away is not one of a job that is held.
            held += [jobs[id] for id in ids if id in jobs and _is_held(jobs[id], worker, through_epoch)]
        return held[:limit]

    async def unverified(self, now: datetime, limit: int) -> list[Job]:
        walk = self._table.walk(("dueKey", "VERIFY"), ("dueSort", "<=", moment(now)), index="due", page=limit)
        return await read_listed(
            self._table, walk, Job, lambda job: job.verify_by is not None and job.verify_by <= now, limit
        )

    async def waiting_runs(self, limit: int, after: str = "") -> list[str]:
        # From run to run, as far as a page reaches: one that has thousands of jobs costs no more than another.
        runs: list[str] = []
        while len(runs) < limit:
            last = runs[-1] if runs else after
            beyond = ("dueSort", ">", f"{last}$") if last else None  # "$" comes after "#", which ends a run's id there
            page = await self._table.walk(("dueKey", "WAITING"), beyond, index="due", page=PAGE).page()
            if not page:
                break
            runs += dict.fromkeys(entry["dueSort"]["S"].rpartition("#")[0] for entry in page)
        return runs[:limit]

    async def unfinished(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        walk = self._table.walk(
            ("liveKey", f"UNFINISHED#{run_id}"), ("SK", ">", f"ID#{after}"), index="live", page=limit
        )
        return await read_listed(self._table, walk, Job, lambda job: job.state is not FINISHED, limit)

    async def of_run(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        beyond = ("runSort", ">", after) if after else None
        walk = self._table.walk(("runKey", f"JOBS#{run_id}"), beyond, index="run", page=limit)
        return await read_listed(self._table, walk, Job, lambda job: True, limit)


def _is_held(job: Job, worker: str, through_epoch: int) -> bool:
    return job.state is RUNNING and job.worker == worker and job.epoch <= through_epoch
