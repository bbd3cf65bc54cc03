"""Records in memory. Reads by id see the truth; the other queries see the indexes, which may lag behind it."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import Any

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.index import Index
from bullpen.engines.memory.notify import WakeupListener
from bullpen.engines.memory.signals import Reports
from bullpen.engines.memory.tables import Tables
from bullpen.errors import Conflict
from bullpen.model.instance import LIVE, UNBOOKED_STAYS, Instance, State
from bullpen.model.pause import Pause
from bullpen.model.provision import COMMITTED, Provision
from bullpen.model.repository import Repository, repository_key
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.signal import direct_key
from bullpen.model.ticket import Requirements, Verdict, judge
from bullpen.model.transition import Change, Check, StoryLine
from bullpen.ports.store import Delta, InstanceGroup


class MemoryRecords:
    def __init__(self, tables: Tables, reports: Reports, faults: Faults) -> None:
        self._tables = tables
        self._instances = tables.instance_indexes
        self._provisions = tables.provision_indexes
        self._reports = reports
        self._faults = faults

    @request("records.apply")
    def apply(self, *changes: Change[Any], checks: Sequence[Check] = ()) -> list[Any]:
        return self._tables.land(changes, checks)

    async def apply_each(self, changes: Sequence[Change[Any]]) -> list[Any | Conflict]:
        # One request per change, as on an engine whose batched writes know no conditions; they travel together. All are
        # awaited before the first error is raised: none goes on behind the caller's back.
        outcomes = await asyncio.gather(*(self.apply(change) for change in changes), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Conflict):
                raise outcome
        return [outcome if isinstance(outcome, BaseException) else outcome[0] for outcome in outcomes]

    @request("records.instances")
    def instances(self, ids: Sequence[str]) -> dict[str, Instance]:
        return {id: self._tables.instances[id] for id in ids if id in self._tables.instances}

    @request("records.known")
    def known(self, ids: Sequence[str]) -> set[str]:
        return {id for id in ids if id in self._tables.instances}

    @request("records.provision")
    def provision(self, provision_id: str) -> Provision | None:
        return self._tables.provisions.get(provision_id)

    @request("records.run_instances")
    def run_instances(self, run_id: str) -> list[Instance]:
        return list(self._instances.of_run.walk(run_id))

    @request("records.served_runs")
    def served_runs(self, limit: int, after: str = "") -> dict[str, list[Instance]]:
        later = (one for one in self._instances.serving.walk() if one.run_id > after)
        by_run = groupby(later, key=lambda one: one.run_id)
        return {run_id: list(of_run) for run_id, of_run in islice(by_run, limit)}

    @request("records.run_provisions")
    def run_provisions(self, run_id: str) -> list[Provision]:
        return list(self._provisions.of_run.walk(run_id))

    @request("records.told_provisions")
    def told_provisions(self, run_id: str, limit: int, *, committed: bool = False) -> list[Provision]:
        told = list(self._provisions.told.walk(run_id))
        return [one for one in reversed(told) if one.state is COMMITTED or not committed][:limit]

    @request("records.claimable")
    def claimable(self, needs: Requirements, now: datetime, limit: int, start: str = "") -> list[Instance]:
        offers = (
            offer
            for usage_class in needs.acceptable_usage_classes
            for offer in self._instances.claimable.around(needs.resource_class, start)
            if offer.usage_class is usage_class and judge(offer.ticket(), needs, 0, 0, now) is Verdict.TAKE
        )
        return list(islice(offers, limit))

    @request("records.pending")
    def pending(self, resource_class: str, limit: int, after: str = "") -> list[Instance]:
        return self._instances.pending.page(limit, resource_class, after)

    @request("records.owing_instances")
    def owing_instances(self, now: datetime, limit: int) -> list[Instance]:
        return list(islice(self._instances.owing.up_to(now), limit))

    @request("records.due_provisions")
    def due_provisions(self, now: datetime, limit: int) -> list[Provision]:
        return list(islice(self._provisions.due.up_to(now), limit))

    @request("records.open_provisions")
    def open_provisions(self, resource_class: str) -> list[Provision]:
        return list(self._provisions.open.walk(resource_class))

    @request("records.waiting_provisions")
    def waiting_provisions(self, limit: int) -> list[Provision]:
        return self._provisions.waiting.page(limit)

    @request("records.ahead")
    def ahead(self, limit: int) -> tuple[list[Provision], list[Pause]]:
        return self._provisions.waiting.page(limit), list(self._tables.pause_indexes.on.walk())

    @request("records.live")
    def live(self, limit: int, after: str = "") -> list[Instance]:
        return self._instances.live.page(limit, after=after)

    @request("records.live_since")
    def live_since(self, known: Mapping[str, int]) -> Delta[Instance]:
        live = {one.id: one for one in self._instances.live.walk()}
        changed = [one for one in live.values() if known.get(one.id) != one.version]
        return Delta(changed, [id for id in known if id not in live])

    @request("records.count")
    def count(self) -> dict[tuple[str, State], int]:
        return dict(Counter((i.resource_class, i.state) for i in self._instances.live.walk() if i.state in LIVE))

    @request("records.census")
    def census(self) -> dict[InstanceGroup, int]:
        return dict(
            Counter(
                InstanceGroup(i.resource_class, i.state, i.attested, i.instance_type, i.usage_class)
                for i in self._instances.live.walk()
            )
        )

    @request("records.scale_sets")
    def scale_sets(self) -> dict[str, ScaleSet]:
        return {one.name: one for one in self._tables.scale_sets.values()}

    @request("records.set_sessions")
    def set_sessions(self) -> dict[str, SetSession]:
        return {session.set_name: session for session in self._tables.set_sessions.values()}

    @request("records.repositories")
    def repositories(self, names: Sequence[str]) -> dict[str, Repository]:
        found = {name.casefold(): self._tables.repositories.get(repository_key(name)) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    @request("records.pauses")
    def pauses(self) -> list[Pause]:
        return [pause for _, pause in sorted(self._tables.pauses.items())]

    @request("records.rotations")
    def rotations(self) -> dict[str, Rotation]:
        return {one.resource_class: one for one in self._tables.rotations.values()}

    @request("records.stories")
    def stories(self, ids: Sequence[str], kind: type[Any] | None = None) -> dict[str, list[StoryLine]]:
        return {id: list(self._tables.stories.get(id, ())) for id in ids}

    @request("records.purge")
    def purge(self, now: datetime, limit: int) -> int:
        tables = self._tables
        indexes: tuple[Index[Any], ...] = (
            self._instances.purgeable,
            self._provisions.purgeable,
            tables.worker_indexes.purgeable,
            tables.job_indexes.purgeable,
        )
        over = [one for index in indexes for one in index.up_to(now) if tables.holds(one)]
        gone = [one for one in over if one.id not in tables.unbooked or one.purge_at <= now - UNBOOKED_STAYS][:limit]
        for record in gone:
            tables.remove(record)
            if isinstance(record, Instance):
                self._reports.signals.pop(record.id, None)
                # Other workers of it leave in their own time: jobs may still be bound to them. So does one that owes.
                direct = tables.workers.get(direct_key(record.id))
                if direct is not None and not direct.owes_reschedule:
                    tables.remove(direct)
        return len(gone)

    def listener(self, instance_id: str) -> WakeupListener:
        """Where the agent of an instance waits for changes of its own record."""
        return WakeupListener(self._tables.bell(instance_id))
