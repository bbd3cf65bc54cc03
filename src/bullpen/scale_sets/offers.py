"""Jobs that the CI offers to a set, on servers where a job does not come assigned: the set acquires what it can serve.

    offered ──▶ open ──▶ acquired ──▶ a message says that it was assigned, or COUNTED_AFTER: the CI's counts include it
                 │  ▲ │
                 │  └─┘ the CI refused the call: behind the others
                 └──▶ another set has it: forgotten

An offer that the set has no room for stays open at the CI, where another set may acquire it. The CI reports it once,
so it is remembered here and acquired when there is room. A set that retires acquires nothing.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from bullpen.errors import Refused
from bullpen.model.scale_set import READY, ScaleSet
from bullpen.ports import JobMessage, JobMessageKind, MessageSession, ScaleSets, SetStatistics

MOST_OPEN = 1000  # offers; of more, the oldest are forgotten: another set has most of those
MOST_CALLS = 30  # of one turn: each rids the set of as many offers of others as it has room for
COUNTED_AFTER = 60.0  # seconds: a message that comes so long after an acquisition has counts that include it


class JobOffers:
    def __init__(self) -> None:
        self._open: dict[int, None] = {}  # by the request, in the order of the offers
        self._acquired: dict[int, float] = {}  # when; the counts may not include these yet

    def hear(self, jobs: Iterable[JobMessage]) -> None:
        """A message came, perhaps once more. What is said of a job after its offer ends the offer."""
        for job in jobs:
            if not job.request or job.kind is JobMessageKind.UNKNOWN:
                continue
            self._acquired.pop(job.request, None)
            if job.kind is JobMessageKind.AVAILABLE:
                self._open[job.request] = None
            else:
                self._open.pop(job.request, None)
        for request in list(self._open)[:-MOST_OPEN]:
            del self._open[request]

    def affordable(self, scale_set: ScaleSet, counts: SetStatistics, time: float) -> list[int]:
        """The offers that the set may acquire now, the oldest first."""
        if scale_set.state is not READY:
            return []
        self._acquired = {one: at for one, at in self._acquired.items() if time - at < COUNTED_AFTER}
        room = scale_set.rules.max - max(counts.assigned, counts.acquired) - len(self._acquired)
        return list(self._open)[: max(0, room)]

    def close(self, requests: Sequence[int], acquired: Collection[int], time: float) -> None:
        """The CI has answered: these are the set's now, and another set has the rest."""
        for request in requests:
            self._open.pop(request, None)
            if request in acquired:
                self._acquired[request] = time

    def put_back(self, requests: Sequence[int]) -> None:
        """The CI refused the call. They stay on offer, behind the others: one of them may be the reason."""
        for request in requests:
            del self._open[request]
            self._open[request] = None


async def acquire(
    port: ScaleSets, session: MessageSession, offers: JobOffers, scale_set: ScaleSet, counts: SetStatistics
) -> None:
    """Acquire until the set is full or no offer is left. Raise Refused."""
    time = asyncio.get_running_loop().time
    for _ in range(MOST_CALLS):
        if not (requests := offers.affordable(scale_set, counts, time())):
            return
        try:
            acquired = await port.acquire(session, requests)
        except Refused:
            offers.put_back(requests)
            raise
        offers.close(requests, acquired, time())
