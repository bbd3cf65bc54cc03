"""Instances, provisions, scale sets and repositories in SQLite.

Every query goes by an index that holds only what it may find.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import product
from typing import Any

from bullpen.engines.sqlite.logs import remove_logs
from bullpen.engines.sqlite.port import SqlitePort
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import (
    INSTANCES,
    PAUSES,
    PROVISIONS,
    REPOSITORIES,
    ROTATIONS,
    SCALE_SETS,
    SET_SESSIONS,
    STORY_COLUMNS,
    Row,
    decode_line,
)
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.sqlite.writes import PreparedChange, land_each, land_together
from bullpen.errors import Conflict, Refused
from bullpen.model.instance import UNBOOKED_STAYS, Instance, State
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.repository import Repository, repository_key
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.signal import direct_key
from bullpen.model.ticket import Requirements, UsageClass, matches
from bullpen.model.times import MICROSECOND, to_micros
from bullpen.model.transition import Change, Check, StoryLine
from bullpen.ports import TOGETHER_LIMIT, Delta, InstanceGroup

_INSTANCE = f"SELECT {', '.join(INSTANCES.columns)} FROM instances"
_PROVISION = f"SELECT {', '.join(PROVISIONS.columns)} FROM provisions"

# A partial index is used only where the query repeats the index's own condition.
RUN_INSTANCES = f"{_INSTANCE} WHERE run_id = ? AND run_id <> '' AND state <> 'terminated' ORDER BY id"
NEXT_SERVED_RUN = (
    "SELECT run_id FROM instances WHERE run_id > ? AND run_id <> '' AND state <> 'terminated' ORDER BY run_id LIMIT 1"
)
_NOT_CLOSED = "(state = 'open' OR owes_kind IS NOT NULL OR members <> '[]')"
RUN_PROVISIONS = f"{_PROVISION} WHERE run_id = ? AND run_id <> '' AND {_NOT_CLOSED} ORDER BY id"
TOLD_PROVISIONS = f"{_PROVISION} WHERE run_id = ? AND run_id <> '' ORDER BY deadline DESC LIMIT ?"
COMMITTED_PROVISIONS = TOLD_PROVISIONS.replace(" ORDER BY", " AND state = 'committed' ORDER BY")
PENDING = (
    f"{_INSTANCE} WHERE resource_class = ? AND id > ? AND run_id = '' AND attested = 0 AND state <> 'terminated'"
    " AND state IN ('idle', 'created') ORDER BY id LIMIT ?"
)
OWING_INSTANCES = f"{_INSTANCE} WHERE owes_due <= ? ORDER BY owes_due, id LIMIT ?"
DUE_PROVISIONS = f"{_PROVISION} WHERE due_at <= ? ORDER BY due_at, id LIMIT ?"
OPEN_PROVISIONS = f"{_PROVISION} WHERE resource_class = ? AND state = 'open' ORDER BY id"
WAITING_PROVISIONS = f"{_PROVISION} WHERE waits_since IS NOT NULL ORDER BY waits_since, id LIMIT ?"
LIVE = f"{_INSTANCE} WHERE id > ? AND purge_at IS NULL ORDER BY id LIMIT ?"
LIVE_VERSIONS = "SELECT id, version FROM instances INDEXED BY instances_live WHERE purge_at IS NULL ORDER BY id"
# Each live instance is in exactly one of these three indexes: it has a run, is on offer, or is neither.
COUNT = """
    SELECT resource_class, state, count(*) FROM instances
    WHERE run_id <> '' AND state <> 'terminated' GROUP BY resource_class, state
    UNION ALL
    SELECT resource_class, 'idle', count(*) FROM instances WHERE attested = 1 GROUP BY resource_class
    UNION ALL
    SELECT resource_class, state, count(*) FROM instances
    WHERE run_id = '' AND attested = 0 AND state <> 'terminated' GROUP BY resource_class, state
"""
# Every row is looked at, in the database and not here: five thousand take a few milliseconds of its reader.
CENSUS = """
    SELECT resource_class, state, attested, instance_type, usage_class, count(*) FROM instances
    WHERE purge_at IS NULL GROUP BY 1, 2, 3, 4, 5
"""
ALL_SETS = f"SELECT {', '.join(SCALE_SETS.columns)} FROM scale_sets ORDER BY id"
ALL_SESSIONS = f"SELECT {', '.join(SET_SESSIONS.columns)} FROM set_sessions ORDER BY id"
ALL_PAUSES = f"SELECT {', '.join(PAUSES.columns)} FROM pauses ORDER BY id"
PAUSES_ON = ALL_PAUSES.replace(" ORDER BY", " WHERE state = 'paused' ORDER BY")
ALL_ROTATIONS = f"SELECT {', '.join(ROTATIONS.columns)} FROM rotations ORDER BY id"
KNOWN = "SELECT 1 FROM instances WHERE id = ?"
STORY = f"SELECT {STORY_COLUMNS} FROM stories WHERE record_id = ? ORDER BY version"
OVER_JOBS = "SELECT id, fence FROM jobs WHERE purge_at <= ? ORDER BY purge_at LIMIT ?"
BOOKED = "AND booked = 1"
SETTLED = "AND lost_epoch <= settled_epoch"

_INSTANCE_TYPE = INSTANCES.columns.index("instance_type")


class SqliteRecords(SqlitePort):
    async def apply(self, *changes: Change[Any], checks: Sequence[Check] = ()) -> list[Any]:
        if len(changes) + len(checks) > TOGETHER_LIMIT:
            raise ValueError(f"{len(changes)} changes and {len(checks)} checks together, at most {TOGETHER_LIMIT}")
        landings = [PreparedChange.of(change) for change in changes]
        rows = await self._database.write(partial(land_together, landings=landings, checks=checks))
        return [landing.table.decode(row) for landing, row in zip(landings, rows, strict=True)]

    async def apply_each(self, changes: Sequence[Change[Any]]) -> list[Any | Conflict]:
        landings = [PreparedChange.of(change) for change in changes]
        # In portions, because a function on the writer's thread must be short; all at once, so that they share commits.
        portions = [landings[at : at + TOGETHER_LIMIT] for at in range(0, len(landings), TOGETHER_LIMIT)]
        answers = await asyncio.gather(*(self._database.write(partial(land_each, landings=some)) for some in portions))
        outcomes = [outcome for answer in answers for outcome in answer]
        return [_record_or_conflict(*both) for both in zip(landings, outcomes, strict=True)]

    async def instances(self, ids: Sequence[str]) -> dict[str, Instance]:
        return await self._by_id(INSTANCES, ids)

    async def known(self, ids: Sequence[str]) -> set[str]:
        def read(snapshot: Snapshot) -> set[str]:
            return {id_ for id_ in ids if snapshot.execute(KNOWN, (id_,)).fetchone()}

        return await self._database.read(read)

    async def provision(self, provision_id: str) -> Provision | None:
        return (await self._by_id(PROVISIONS, [provision_id])).get(provision_id)

    async def run_instances(self, run_id: str) -> list[Instance]:
        return await self._select(INSTANCES, RUN_INSTANCES, run_id)

    async def served_runs(self, limit: int, after: str = "") -> dict[str, list[Instance]]:
        def read(snapshot: Snapshot) -> dict[str, list[Row]]:
            found: dict[str, list[Row]] = {}
            last = after
            while len(found) < limit and (row := snapshot.execute(NEXT_SERVED_RUN, (last,)).fetchone()):
                last = row[0]
                found[last] = snapshot.execute(RUN_INSTANCES, (last,)).fetchall()
            return found

        rows = await self._database.read(read)
        return {run_id: [INSTANCES.decode(row) for row in of_run] for run_id, of_run in rows.items()}

    async def run_provisions(self, run_id: str) -> list[Provision]:
        return await self._select(PROVISIONS, RUN_PROVISIONS, run_id)

    async def told_provisions(self, run_id: str, limit: int, *, committed: bool = False) -> list[Provision]:
        statement = COMMITTED_PROVISIONS if committed else TOLD_PROVISIONS
        return await self._select(PROVISIONS, statement, run_id, limit)

    async def claimable(self, needs: Requirements, now: datetime, limit: int, start: str = "") -> list[Instance]:
        domains = needs.acceptable_domains
        statement = (
            f"{_INSTANCE} WHERE resource_class = ? AND attested = 1 AND usage_class = ? AND cpu >= ? AND mem >= ?"
            f" AND image_generation = ? AND threshold > ? AND trust_domain IN ({', '.join('?' * len(domains))})"
        )
        fits = (needs.cpu, needs.mem, needs.image_generation, to_micros(now), *domains, start)

        def read(snapshot: Snapshot) -> list[Row]:
            found: list[Row] = []
            for usage_class, side in product(needs.acceptable_usage_classes, ("id >= ?", "id < ?")):
                of_class = (needs.resource_class, usage_class.value, *fits)
                for row in snapshot.execute(f"{statement} AND {side} ORDER BY id", of_class):
                    if len(found) >= limit:
                        return found
                    # Here and not in SQL: what a pattern means is said in one place.
                    if matches(row[_INSTANCE_TYPE], needs.allowed_types):
                        found.append(row)
            return found

        return [INSTANCES.decode(row) for row in await self._database.read(read)]

    async def pending(self, resource_class: str, limit: int, after: str = "") -> list[Instance]:
        return await self._select(INSTANCES, PENDING, resource_class, after, limit)

    async def owing_instances(self, now: datetime, limit: int) -> list[Instance]:
        return await self._select(INSTANCES, OWING_INSTANCES, to_micros(now), limit)

    async def due_provisions(self, now: datetime, limit: int) -> list[Provision]:
        return await self._select(PROVISIONS, DUE_PROVISIONS, to_micros(now), limit)

    async def open_provisions(self, resource_class: str) -> list[Provision]:
        return await self._select(PROVISIONS, OPEN_PROVISIONS, resource_class)

    async def waiting_provisions(self, limit: int) -> list[Provision]:
        return await self._select(PROVISIONS, WAITING_PROVISIONS, limit)

    async def ahead(self, limit: int) -> tuple[list[Provision], list[Pause]]:
        def read(snapshot: Snapshot) -> tuple[list[Row], list[Row]]:
            return snapshot.execute(WAITING_PROVISIONS, (limit,)).fetchall(), snapshot.execute(PAUSES_ON).fetchall()

        waiting, paused = await self._database.read(read)
        return [PROVISIONS.decode(row) for row in waiting], [PAUSES.decode(row) for row in paused]

    async def live(self, limit: int, after: str = "") -> list[Instance]:
        return await self._select(INSTANCES, LIVE, after, limit)

    async def live_since(self, known: Mapping[str, int]) -> Delta[Instance]:
        def versions(snapshot: Snapshot) -> dict[str, int]:
            return dict(snapshot.execute(LIVE_VERSIONS).fetchall())

        return await self._delta(INSTANCES, versions, known)

    async def count(self) -> dict[tuple[str, State], int]:
        counted: Counter[tuple[str, State]] = Counter()
        for resource_class, state, number in await self._rows(COUNT):
            counted[resource_class, State(state)] += number
        return dict(counted)

    async def census(self) -> dict[InstanceGroup, int]:
        return {
            InstanceGroup(name, State(state), bool(attested), kind, UsageClass(usage)): count
            for name, state, attested, kind, usage, count in await self._rows(CENSUS)
        }

    async def scale_sets(self) -> dict[str, ScaleSet]:
        return {one.name: one for one in await self._select(SCALE_SETS, ALL_SETS)}

    async def set_sessions(self) -> dict[str, SetSession]:
        return {one.set_name: one for one in await self._select(SET_SESSIONS, ALL_SESSIONS)}

    async def repositories(self, names: Sequence[str]) -> dict[str, Repository]:
        keys = {repository_key(name): name.casefold() for name in names}
        return {keys[id_]: one for id_, one in (await self._by_id(REPOSITORIES, [*keys])).items()}

    async def pauses(self) -> list[Pause]:
        return await self._select(PAUSES, ALL_PAUSES)

    async def rotations(self) -> dict[str, Rotation]:
        return {one.resource_class: one for one in await self._select(ROTATIONS, ALL_ROTATIONS)}

    async def stories(self, ids: Sequence[str], kind: type[Any] | None = None) -> dict[str, list[StoryLine]]:
        def read(snapshot: Snapshot) -> dict[str, list[Row]]:
            return {id_: snapshot.execute(STORY, (id_,)).fetchall() for id_ in ids}

        found = await self._database.read(read)
        return {id_: [decode_line(row) for row in rows] for id_, rows in found.items() if rows}

    async def purge(self, now: datetime, limit: int) -> int:
        at = to_micros(now)
        # Files before rows: if the process is killed between, the rows are still there to say which files are left.
        jobs = await self._rows(OVER_JOBS, at, limit)
        if jobs:
            await asyncio.to_thread(remove_logs, self._database.path.parent, jobs)
        return await self._database.write(partial(_purge, now=at, limit=limit, jobs=[id_ for id_, _ in jobs]))


def _record_or_conflict(landing: PreparedChange, outcome: Row | Conflict | Refused) -> Any | Conflict:
    if isinstance(outcome, Refused):
        raise outcome  # a fault of the program; the others have landed
    return outcome if isinstance(outcome, Conflict) else landing.table.decode(outcome)


def _purge(transaction: Transaction, now: int, limit: int, jobs: list[str]) -> int:
    instances = _delete_due(transaction, "instances", now, limit, BOOKED)
    if len(instances) < limit:
        instances += _delete_due(transaction, "instances", now - UNBOOKED_STAYS // MICROSECOND, limit - len(instances))
    transaction.executemany("DELETE FROM signals WHERE instance_id = ?", instances)
    # Other workers of an instance leave in their own time: jobs may still be bound to them. So does one that owes.
    direct = [(direct_key(id_),) for (id_,) in instances]
    transaction.executemany(f"DELETE FROM workers WHERE id = ? {SETTLED}", direct)
    transaction.executemany(
        "DELETE FROM stories WHERE record_id = ? AND NOT EXISTS (SELECT 1 FROM workers WHERE id = record_id)", direct
    )
    provisions = _delete_due(transaction, "provisions", now, limit - len(instances))
    room = limit - len(instances) - len(provisions)
    workers = _delete_due(transaction, "workers", now, room, SETTLED)
    over = [(id_,) for id_ in jobs[: max(room - len(workers), 0)]]
    ended = transaction.executemany("DELETE FROM jobs WHERE id = ?", over).rowcount if over else 0
    transaction.executemany("DELETE FROM stories WHERE record_id = ?", [*instances, *provisions, *workers, *over])
    return len(instances) + len(provisions) + len(workers) + ended


def _delete_due(transaction: Transaction, table: str, now: int, limit: int, condition: str = "") -> list[Row]:
    return transaction.execute(
        f"DELETE FROM {table} WHERE id IN"
        f" (SELECT id FROM {table} WHERE purge_at <= ? {condition} ORDER BY purge_at LIMIT ?) RETURNING id",
        (now, limit),
    ).fetchall()
