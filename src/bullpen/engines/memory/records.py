"""Records in memory. Reads by id see the truth; the other queries see the indexes, which may lag behind it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import islice, takewhile
from typing import Any

from bullpen.engines.memory.faults import Faults
from bullpen.engines.memory.index import Index
from bullpen.engines.memory.notify import WakeupListener
from bullpen.engines.memory.signals import Reports
from bullpen.engines.memory.tables import Tables
from bullpen.errors import Conflict
from bullpen.model.instance import LIVE, Instance, State
from bullpen.model.provision import COMMITTED, Provision
from bullpen.model.signal import direct_key
from bullpen.model.ticket import Requirements, Verdict, judge
from bullpen.model.transition import Change, Check, StoryLine


class MemoryRecords:
    """One process's access to the records."""

    def __init__(self, tables: Tables, reports: Reports, faults: Faults) -> None:
        self._tables = tables
        self._reports = reports
        self._faults = faults

    async def apply(self, *changes: Change[Any], checks: Sequence[Check] = ()) -> list[Any]:
        return await self._faults.call("records.apply", lambda: self._tables.land(changes, checks))

    async def apply_each(self, changes: Sequence[Change[Any]]) -> list[Any | Conflict]:
        # One request per change, as on an engine whose batched writes know no conditions; they travel together. All are
        # awaited before the first error is raised: none goes on behind the caller's back.
        calls = [self._faults.call("records.apply", partial(self._land_one, change)) for change in changes]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Conflict):
                raise outcome
        return outcomes

    async def instances(self, ids: Sequence[str]) -> dict[str, Instance]:
        stored = self._tables.instances
        return await self._faults.call("records.instances", lambda: {i: stored[i] for i in ids if i in stored})

    async def known(self, ids: Sequence[str]) -> set[str]:
        stored = self._tables.instances
        return await self._faults.call("records.known", lambda: {id for id in ids if id in stored})

    async def provision(self, provision_id: str) -> Provision | None:
        return await self._faults.call("records.provision", lambda: self._tables.provisions.get(provision_id))

    async def run_instances(self, run_id: str) -> list[Instance]:
        return await self._faults.call("records.run_instances", lambda: list(self._current().of_run.walk(run_id)))

    async def run_provisions(self, run_id: str) -> list[Provision]:
        return await self._faults.call(
            "records.run_provisions", lambda: list(self._current().provisions_of_run.walk(run_id))
        )

    async def told_provisions(self, run_id: str, limit: int, *, committed: bool = False) -> list[Provision]:
        def newest() -> list[Provision]:
            told = list(self._current().provisions_told.walk(run_id))
            return [one for one in reversed(told) if one.state is COMMITTED or not committed][:limit]

        return await self._faults.call("records.told_provisions", newest)

    async def claimable(self, needs: Requirements, now: datetime, limit: int, start: str = "") -> list[Instance]:
        def fitting() -> list[Instance]:
            index = self._current().claimable
            offers = (
                offer
                for usage_class in needs.acceptable_usage_classes
                for offer in index.around(needs.resource_class, start)
                if offer.usage_class is usage_class and _fits(offer, needs, now)
            )
            return list(islice(offers, limit))

        return await self._faults.call("records.claimable", fitting)

    async def pending(self, resource_class: str, limit: int, after: str = "") -> list[Instance]:
        return await self._faults.call(
            "records.pending", lambda: list(islice(self._current().pending.walk(resource_class, after), limit))
        )

    async def owing_instances(self, now: datetime, limit: int) -> list[Instance]:
        def owing() -> list[Instance]:
            due = takewhile(lambda i: i.owes is not None and i.owes.due_at <= now, self._current().owing.walk())
            return list(islice(due, limit))

        return await self._faults.call("records.owing_instances", owing)

    async def due_provisions(self, now: datetime, limit: int) -> list[Provision]:
        def due() -> list[Provision]:
            overdue = takewhile(lambda p: _has_come(p.due_at, now), self._current().provisions_due.walk())
            return list(islice(overdue, limit))

        return await self._faults.call("records.due_provisions", due)

    async def open_provisions(self, resource_class: str) -> list[Provision]:
        return await self._faults.call(
            "records.open_provisions", lambda: list(self._current().provisions_open.walk(resource_class))
        )

    async def waiting_provisions(self, limit: int) -> list[Provision]:
        return await self._faults.call(
            "records.waiting_provisions", lambda: list(islice(self._current().provisions_waiting.walk(), limit))
        )

    async def live(self, limit: int, after: str = "") -> list[Instance]:
        return await self._faults.call(
            "records.live", lambda: list(islice(self._current().live.walk(after=after), limit))
        )

    async def count(self) -> dict[tuple[str, State], int]:
        def counted() -> dict[tuple[str, State], int]:
            return dict(Counter((i.resource_class, i.state) for i in self._current().live.walk() if i.state in LIVE))

        return await self._faults.call("records.count", counted)

    async def stories(self, ids: Sequence[str]) -> dict[str, list[StoryLine]]:
        kept = self._tables.stories
        return await self._faults.call("records.stories", lambda: {i: list(kept.get(i, ())) for i in ids})

    async def purge(self, now: datetime, limit: int) -> int:
        return await self._faults.call("records.purge", lambda: self._purge(now, limit))

    def listener(self, instance_id: str) -> WakeupListener:
        """Where the agent of an instance waits for changes of its own record."""
        return WakeupListener(self._tables.bell(instance_id))

    def _current(self) -> Tables:
        """The indexes, as far behind as they are."""
        self._tables.instance_indexes.catch_up()
        self._tables.provision_indexes.catch_up()
        return self._tables

    def _land_one(self, change: Change[Any]) -> Any | Conflict:
        try:
            return self._tables.land([change])[0]
        except Conflict as conflict:
            return conflict

    def _purge(self, now: datetime, limit: int) -> int:
        tables = self._current()
        tables.worker_indexes.catch_up()
        tables.job_indexes.catch_up()
        indexes: tuple[Index[Any], ...] = (
            tables.purgeable,
            tables.provisions_purgeable,
            tables.worker_indexes.purgeable,
            tables.job_indexes.purgeable,
        )
        over = [record for index in indexes for record in takewhile(lambda r: _has_come(r.purge_at, now), index.walk())]
        gone = [record for record in over if tables.holds(record)][:limit]
        for record in gone:
            tables.remove(record)
            if isinstance(record, Instance):
                self._reports.forget(record.id)
                # Other workers of it leave in their own time: jobs may still be bound to them. So does one that owes.
                direct = tables.workers.get(direct_key(record.id))
                if direct is not None and not direct.owes_reschedule:
                    tables.remove(direct)
        return len(gone)


def _fits(offer: Instance, needs: Requirements, now: datetime) -> bool:
    return judge(offer.ticket(), needs, 0, 0, now).verdict is Verdict.TAKE


def _has_come(at: datetime | None, now: datetime) -> bool:
    return at is not None and at <= now
