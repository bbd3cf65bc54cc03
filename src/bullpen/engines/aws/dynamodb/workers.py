"""Workers and their leases in DynamoDB: an item per worker, which is also its heartbeat.

An index says which workers to look at, the item itself what is true. One pass of a sweeper asks several questions about
the same moment: what the first one has seen in the index is kept for the others, which read the items again. Beats are
in `beats.py`; those that agents write themselves are accepted here, by the sweepers (`direct_beats.py`).
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.dynamodb import direct_beats
from bullpen.engines.aws.dynamodb.beats import DynamoBeats, stored_worker
from bullpen.engines.aws.dynamodb.entries import UNTIMED, lease_keys
from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import Item, decode_part, encode_part, id_of, key_of, moment, text
from bullpen.engines.aws.dynamodb.records import decode_listed, read_listed, read_many
from bullpen.engines.aws.dynamodb.table import TableClient, Unmet
from bullpen.engines.aws.dynamodb.writes import land_together
from bullpen.errors import Conflict
from bullpen.model import worker as workers
from bullpen.model.control import Control
from bullpen.model.transition import Change
from bullpen.model.worker import ACTIVE, CLEANED_UP, INACTIVE, Card, Worker, WorkerFate
from bullpen.ports.liveness import HeldLease

PORTION = 500
"""Workers looked at together: five reads by key."""

TIMERS_PAGE = 1000  # timers read at a time from one part of the index

AT_ONCE = 32
"""Timers moved at once. Each by an update of its own: a transaction costs twice as much, and saves only requests."""

CENSUS_LASTS = 5.0
"""Seconds for which a count is remembered: it reads an entry of every worker, and a sweep needs it to the tenth."""


class DynamoWorkers(DynamoBeats):
    """`ports.Workers` on the table of a pool."""

    def __init__(self, table: TableClient, *, census_lasts: float = CENSUS_LASTS) -> None:
        super().__init__(table)
        self._census_lasts = census_lasts
        # Kept by `rearm`: for `suspects` the timers of leases that are out, for `to_clean` what was due at that moment.
        self._silent: LeaseTimers | None = None
        self._cleaning: tuple[datetime, list[Item]] | None = None
        self._census: tuple[float, dict[tuple[str, str], int]] | None = None

    async def workers(self, keys: Sequence[str]) -> dict[str, Worker]:
        items = await self._table.get_many([key_of(Worker, key) for key in keys])
        return {found.id: found for found in map(stored_worker, items) if found is not None}

    async def rearm(self, now: datetime, limit: int) -> int:
        timers, silent = LeaseTimers(self._table, now), list[Item]()
        self._silent = self._cleaning = None
        moved = 0
        while moved < limit:
            if not (due := await timers.next(PORTION)):
                timers.put_back(silent)
                self._silent = timers
                break
            found = await self._read(due)
            suspects = {one.id for one in found if _is_suspect(one, now)}
            silent += [timer for timer in due if id_of(Worker, timer) in suspects]
            is_first = any(one.version == 0 for one in found)
            epoch = await self._forgotten.read(now) if is_first else 0
            changes = [change for one in found if (change := _looked_at(one, now, epoch)) is not None]
            moved += await self._move(changes[: limit - moved])
        return moved + await self._bring_back(now, limit - moved)

    async def suspects(self, now: datetime, limit: int) -> list[Worker]:
        timers, self._silent = self._silent, None
        if timers is None or timers.now != now:
            timers = LeaseTimers(self._table, now)
        found: list[Worker] = []
        while len(found) < limit and (due := await timers.next(min(PORTION, limit - len(found)))):
            # A lease without a deadline cannot be out: a thousand of them are not read to find that.
            timed = [timer for timer in due if timer["dueSort"]["S"] != UNTIMED]
            found += [one for one in await self._read(timed) if _is_suspect(one, now)]
        return sorted(found, key=lambda one: (one.deadline or now, one.id))

    async def to_clean(self, now: datetime, limit: int) -> list[Worker]:
        def is_due(one: Worker) -> bool:
            due = one.state is INACTIVE and one.cleanup_at is not None and one.cleanup_at <= now
            return due and not _comes_back(one)

        kept, self._cleaning = self._cleaning, None
        if kept is not None and kept[0] == now:
            due = [one for one in await self._read(kept[1]) if is_due(one)]
            return sorted(due, key=lambda one: (one.cleanup_at or now, one.id))[:limit]
        walk = self._table.walk(("dueKey", "CLEAN"), ("dueSort", "<=", moment(now)), index="due", page=limit)
        return await read_listed(walk, Worker, is_due, limit)

    async def lost(self, limit: int) -> list[Worker]:
        walk = self._table.walk(("dueKey", "CLEAN"), index="due", page=limit)
        return await read_listed(walk, Worker, lambda one: one.state is INACTIVE and not _comes_back(one), limit)

    async def owing(self, limit: int) -> list[Worker]:
        walk = self._table.walk(("todoKey", "OWES#Worker"), index="todo", page=limit)
        return await read_listed(walk, Worker, lambda one: one.owes_reschedule, limit)

    async def leaving(self, limit: int) -> list[Worker]:
        walk = self._table.walk(("runKey", "LEAVING"), index="run", page=limit)
        return await read_listed(walk, Worker, lambda one: one.leaving is not None and one.state is ACTIVE, limit)

    async def listed(self, limit: int, after: str = "") -> list[Worker]:
        start = key_of(Worker, after)["SK"]["S"] if after else "ID#"
        walk = self._table.walk(("liveKey", "LIVE#Worker"), ("SK", ">", start), index="live", page=limit)
        return await read_listed(walk, Worker, lambda one: one.state is not CLEANED_UP, limit)

    async def census(self) -> dict[tuple[str, str], int]:
        now = asyncio.get_running_loop().time()
        if self._census is None or self._census[0] + self._census_lasts <= now:
            self._census = now, await self._count()
        return self._census[1]

    async def leases(self, since: datetime, limit: int) -> list[HeldLease]:
        return [
            HeldLease(one.instance_id, one.deadline, one.lease, one.beat_at)
            for one in await self.listed(limit)
            if one.state is ACTIVE and one.instance_id and one.deadline and one.beat_at and one.beat_at > since
        ]

    async def describe(self, key: str, card: Card) -> None:
        # In the item of the lease, which loses it in its clean-up; a beat writes around it. The caller has compared it.
        expression = Expression()
        writes = expression.update({"card": encode_part(card)})
        is_gone = f"{expression.name('state')} = {expression.value(text(CLEANED_UP.value))}"
        condition = f"attribute_exists({expression.name('seq')}) AND NOT {is_gone}"
        request = expression.request(key_of(Worker, key), UpdateExpression=writes, ConditionExpression=condition)
        with suppress(Unmet):
            await self._table.update(request)

    async def cards(self, keys: Sequence[str]) -> dict[str, Card]:
        items = await self._table.get_many([key_of(Worker, key) for key in keys], only=("card",))
        found = {}
        for item in items:
            with suppress(KeyError, ValueError):  # one that says nothing, or nothing that can be read
                found[id_of(Worker, item)] = decode_part(Card, item["card"])
        return found

    async def controls(self) -> dict[str, Control]:
        items = await self._table.walk(("PK", "TYPE#Control")).all()
        return {control.id: control for control in decode_listed(Control, items)}

    async def _count(self) -> dict[tuple[str, str], int]:
        counted: Counter[tuple[str, str]] = Counter()
        for item in await self._table.walk(("liveKey", "LIVE#Worker"), index="live", only=("state", "domain")).all():
            state = item.get("state", {}).get("S", ACTIVE.value)  # a new one has none yet
            if state in (ACTIVE.value, INACTIVE.value):
                counted[item.get("domain", {}).get("S", ""), state] += 1
        return dict(counted)

    async def _read(self, found: Iterable[Item]) -> list[Worker]:
        """The workers that these entries of an index name, as they are now."""
        return await read_many(self._table, Worker, [id_of(Worker, item) for item in found])

    async def _move(self, changes: Sequence[Change[Worker]]) -> int:
        """Land each; how many did. One that does not was heard meanwhile, or another sweeper was faster."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def move(change: Change[Worker]) -> bool:
            async with turns:
                try:
                    await land_together(self._table, [change], ())
                except Conflict:
                    return False
                return True

        return sum(await gather_or_cancel([move(change) for change in changes]))

    async def _bring_back(self, now: datetime, limit: int) -> int:
        """Accept the beats of lost workers that beat by themselves: no timer of theirs is due, so ask all of them."""
        walk = self._table.walk(("dueKey", "CLEAN"), index="due")
        due, until = list[Item](), moment(now)
        moved = 0
        while not walk.over and moved < limit:
            page = await walk.page()
            due += [item for item in page if item["dueSort"]["S"] <= until]
            direct_ones = [item for item in page if direct_beats.is_direct(id_of(Worker, item))]
            back = [one for one in await self._read(direct_ones) if one.state is INACTIVE and _comes_back(one)]
            changes = [change for one in back if (change := direct_beats.accept(one, now)) is not None]
            moved += await self._move(changes[: limit - moved])
        if walk.over:
            self._cleaning = now, due
        return moved


class LeaseTimers:
    """The timers of leases that are due, the longest due first: a query for each part of the index, merged. A timer is
    a hint: the worker that it names says what is due."""

    def __init__(self, table: TableClient, now: datetime) -> None:
        self.now = now
        due = ("dueSort", "<=", moment(now))
        walks = [table.walk(("dueKey", part), due, index="due", page=TIMERS_PAGE) for part in lease_keys()]
        self._parts = [(walk, deque[Item]()) for walk in walks]

    async def next(self, number: int) -> list[Item]:
        """Up to this many; none if there are none left."""
        taken: list[Item] = []
        while len(taken) < number:
            if used_up := [part for part in self._parts if not part[1] and not part[0].over]:
                pages = await gather_or_cancel([walk.page() for walk, _ in used_up])
                for (_, entries), page in zip(used_up, pages, strict=True):
                    entries.extend(page)
                continue  # a page may be empty and not the last
            heads = [entries for _, entries in self._parts if entries]
            if not heads:
                break
            taken.append(min(heads, key=lambda entries: entries[0]["dueSort"]["S"]).popleft())
        return taken

    def put_back(self, entries: Iterable[Item]) -> None:
        """Once none are left: these, in their order, may be taken again."""
        self._parts[0][1].extend(entries)


def _is_suspect(one: Worker, now: datetime) -> bool:
    return one.state is ACTIVE and one.is_suspect(now) and not direct_beats.is_unseen(one)


def _comes_back(one: Worker) -> bool:
    """True if it has beaten by itself since it was lost, and may."""
    return one.fate is WorkerFate.KEEP and direct_beats.is_unseen(one)


def _looked_at(one: Worker, now: datetime, forgotten_epoch: int) -> Change[Worker] | None:
    """What becomes of a worker whose timer is due; None if its lease is out, or it was moved meanwhile."""
    if one.state is not ACTIVE:
        return None
    if direct_beats.is_unseen(one):
        return direct_beats.accept(one, now, forgotten_epoch)
    if one.deadline is None or one.deadline <= now or one.due_at is None or one.due_at > now:
        return None
    return workers.rearm(one, workers.Rearmed(at=now, by=direct_beats.BY, due_at=one.deadline))
