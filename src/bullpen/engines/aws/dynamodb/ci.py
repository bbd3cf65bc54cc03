"""Bullpen's own CI, as the control plane sees it: `TYPE#Registration` says which runner serves which label.

Agents write these items, or `serve` for them. A runner is busy if it says so, or if it holds a running job: jobs are
assigned to agents that use HTTP.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.dynamodb.expressions import Expression, check_of
from bullpen.engines.aws.dynamodb.items import Item, raw_id, raw_key, text
from bullpen.engines.aws.dynamodb.records import read_listed
from bullpen.engines.aws.dynamodb.table import TableClient, TransactionCancelled
from bullpen.errors import Unavailable
from bullpen.model.instance import CLAIMED, CREATED, RUNNING, Instance
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.job import Job
from bullpen.model.transition import Check, Guard
from bullpen.ports import Registration, RegistrationCredentials, Removal

KIND = "Registration"
ATTEMPTS = 8

AT_ONCE = 16  # runs asked at once for their jobs


class DynamoCI:
    """`ports.CI` on the table of a pool."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def registrations(self) -> list[Registration]:
        items = await self._table.walk(("PK", f"TYPE#{KIND}")).all()
        at_work = await self._at_work({_label(item): None for item in items})
        return [
            Registration(name := raw_id(item), _label(item), _says_busy(item) or (_label(item), name) in at_work)
            for item in items
        ]

    async def register(self, name: str, label: str, round: str) -> RegistrationCredentials | None:
        owned = (Guard("run_id", "is", label), Guard("round", "is", round))
        check = Check(Instance, name, (*owned, Guard("state", "in", (CREATED, CLAIMED, RUNNING))))
        item = {
            **raw_key(KIND, name),
            "instanceId": text(name),
            "label": text(label),
            "round": text(round),
            "busy": {"BOOL": False},
        }
        try:
            await self._table.transact(
                [{"ConditionCheck": check_of(check)}, {"Put": {"Item": item}}], self._table.chance.token()
            )
        except TransactionCancelled:
            return None
        return RegistrationCredentials(name, label)

    def prepare(self, name: str, label: str, round: str) -> None:
        return  # nothing takes time here

    def failing(self, label: str) -> None:
        return

    async def remove(self, handle: str) -> Removal:
        # No job begins between the look and the removal: a runner that is removed has lost its instance to its run
        # first, and a job is assigned only under the condition that the instance runs for it.
        for _ in range(ATTEMPTS):
            item = await self._table.get(raw_key(KIND, handle))
            if item is None:
                return Removal.REMOVED
            if _says_busy(item) or (_label(item), handle) in await self._at_work([_label(item)]):
                return Removal.BUSY
            if await self._delete(item):
                return Removal.REMOVED
        raise Unavailable(f"{handle}: it registered again {ATTEMPTS} times while it was being removed")

    def instance_of(self, handle: str) -> str | None:
        return handle  # runners have the names of their instances

    async def refusals(self, versions: Sequence[str]) -> dict[str, datetime]:
        return {}  # its runners are agents, which run the version that Bullpen gave them

    async def _delete(self, seen: Item) -> bool:
        """Unless it has become busy, or another, since it was seen."""
        expression = Expression()
        tests = [
            f"{expression.name(name)} = {expression.value(seen[name])}"
            if name in seen
            else f"attribute_not_exists({expression.name(name)})"
            for name in ("label", "round", "busy")
        ]
        gone = f"attribute_not_exists({expression.name('PK')}) OR ({' AND '.join(tests)})"
        request = expression.request({"PK": seen["PK"], "SK": seen["SK"]}, ConditionExpression=gone)
        try:
            await self._table.transact([{"Delete": request}], self._table.chance.token())
        except TransactionCancelled:
            return False
        return True

    async def _at_work(self, labels: Iterable[str]) -> set[tuple[str, str]]:
        """Label and instance of every running job of these runs."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def running(label: str) -> list[Job]:
            walk = self._table.walk(("liveKey", f"UNFINISHED#{label}"), index="live")
            async with turns:
                return await read_listed(walk, Job, lambda job: job.state is JOB_RUNNING)

        return {
            (job.run_id, job.instance_id) for jobs in await gather_or_cancel([*map(running, labels)]) for job in jobs
        }


def _label(item: Item) -> str:
    return str(item.get("label", {}).get("S", ""))


def _says_busy(item: Item) -> bool:
    return bool(item.get("busy", {}).get("BOOL", False))
