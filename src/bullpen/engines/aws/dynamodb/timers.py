"""The timers of leases that are due, the longest due first: a query for each part of the index, merged."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.dynamodb.entries import lease_keys
from bullpen.engines.aws.dynamodb.items import Item, moment
from bullpen.engines.aws.dynamodb.table import TableClient

PAGE = 1000
"""Timers read at a time from one part."""


class LeaseTimers:
    """Reads on where it is used up. A timer is a hint: the worker that it names says what is due."""

    def __init__(self, table: TableClient, now: datetime) -> None:
        self.now = now
        due = ("dueSort", "<=", moment(now))
        walks = [table.walk(("dueKey", part), due, index="due", page=PAGE) for part in lease_keys()]
        self._parts = [(walk, deque[Item]()) for walk in walks]

    async def next(self, number: int) -> list[Item]:
        """Up to this many; none if there are none left."""
        taken: list[Item] = []
        while len(taken) < number:
            if used_up := [part for part in self._parts if not part[1] and not part[0].over]:
                for (_, entries), page in zip(
                    used_up, await gather_or_cancel([w.page() for w, _ in used_up]), strict=True
                ):
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
