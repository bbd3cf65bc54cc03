"""Jobs of Bullpen's own CI in DynamoDB. Indexes say where to look, the jobs themselves whether they are asked for.

An item of another program is left out, with a warning: one unreadable job stops neither the heartbeats that
name it nor a pass over all lost jobs.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from bullpen.engines.aws.dynamodb.entries import after_run, run_of
from bullpen.engines.aws.dynamodb.expressions import held_kind
from bullpen.engines.aws.dynamodb.items import Item, moment, name_of
from bullpen.engines.aws.dynamodb.records import read_listed, read_many
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.model.job import FINISHED, QUEUED, RUNNING, Job, has_used
from bullpen.ports.store import Delta
from bullpen.structured_log import get_logger

PAGE = 100
"""Keys read at a time where many of them may not suit: one read by key of them all."""

log = get_logger("bullpen.engines.aws")


class DynamoJobs:
    """`ports.Jobs` on the table of a pool."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def jobs(self, ids: Sequence[str]) -> dict[str, Job]:
        return {job.id: job for job in await read_many(self._table, Job, ids)}

    async def queued(
        self, run_id: str, now: datetime, limit: int, capabilities: Sequence[str] | None = None, without: str = ""
    ) -> list[Job]:
        def suits(job: Job) -> bool:
            ready = job.state is QUEUED and (job.not_before is None or job.not_before <= now)
            able = capabilities is None or not job.capability or job.capability in capabilities
            return ready and able and not (without and job.avoid == without)

        walk = self._table.walk(("todoKey", f"QUEUED#{run_id}"), index="todo", page=min(limit, PAGE), then=PAGE)
        return await read_listed(walk, Job, suits, limit)

    async def runners_used(self, run_id: str, since: datetime, limit: int) -> list[str]:
        walk = self._table.walk(("runKey", f"JOBS#{run_id}"), index="run", page=limit)
        jobs = await read_listed(walk, Job, lambda job: True, limit)
        return sorted({job.instance_id for job in jobs if has_used(job, since)})

    async def changed(self, run_ids: Sequence[str], known: Mapping[str, int], limit: int) -> Delta[Job]:
        there: dict[str, Job] = {}
        for run_id in run_ids:
            there |= (
                {job.id: job for job in await self.of_run(run_id, limit - len(there))} if len(there) < limit else {}
            )
        changed = [job for job in there.values() if known.get(job.id) != job.version]
        return Delta(changed, [id for id in known if id not in there])

    async def sources(self) -> set[str]:
        return set()  # there is no store for them here

    async def held(self, worker: str, through_epoch: int, limit: int) -> list[Job]:
        # By the markers that land with the jobs, not by an index: that none is left must be true when it is said.
        until = ("SK", "<", f"ID#{through_epoch + 1:012}")
        walk = self._table.walk(("PK", f"TYPE#{held_kind(worker)}"), until, page=limit)
        held: list[Job] = []
        while not walk.over and len(held) < limit:
            ids = [id for marker in await walk.page() if (id := _marked(marker))]
            jobs = await read_many(self._table, Job, ids)
            # A marker read just before its job was given away is not one of a job that is held.
            held += [job for job in jobs if _is_held(job, worker, through_epoch)]
        return held[:limit]

    async def unverified(self, now: datetime, limit: int) -> list[Job]:
        walk = self._table.walk(("dueKey", "VERIFY"), ("dueSort", "<=", moment(now)), index="due", page=limit)
        return await read_listed(walk, Job, lambda job: job.verify_by is not None and job.verify_by <= now, limit)

    async def waiting_runs(self, limit: int, after: str = "") -> list[str]:
        # From run to run, as far as a page reaches: one that has thousands of jobs costs no more than another.
        runs: list[str] = []
        last, over = after, False
        while len(runs) < limit and not over:
            beyond = ("dueSort", ">", after_run(last)) if last else None
            walk = self._table.walk(("dueKey", "WAITING"), beyond, index="due", page=PAGE)
            runs += dict.fromkeys(run_of(item["dueSort"]["S"]) for item in await walk.first(PAGE))
            last, over = runs[-1] if runs else after, walk.over
        return runs[:limit]

    async def unfinished(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        unfinished = ("liveKey", f"UNFINISHED#{run_id}")
        walk = self._table.walk(unfinished, ("SK", ">", f"ID#{after}"), index="live", page=limit)
        return await read_listed(walk, Job, lambda job: job.state is not FINISHED, limit)

    async def of_run(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        beyond = ("runSort", ">", after) if after else None
        walk = self._table.walk(("runKey", f"JOBS#{run_id}"), beyond, index="run", page=limit)
        return await read_listed(walk, Job, lambda job: True, limit)


def _marked(marker: Item) -> str:
    """The id of the job; empty for a marker that another program wrote."""
    if found := re.fullmatch(r"ID#\d{12}#(.+)", marker["SK"]["S"]):
        return found[1]
    log.warning("item ignored: not written by Bullpen", item=name_of(marker))
    return ""


def _is_held(job: Job, worker: str, through_epoch: int) -> bool:
    return job.state is RUNNING and job.worker == worker and job.epoch <= through_epoch
