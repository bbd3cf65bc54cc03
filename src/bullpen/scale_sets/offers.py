"""Jobs that the CI offers to a set, on servers where a job does not come assigned: the set acquires what it can serve.

    offered ──▶ open ──▶ acquired ──▶ a message says that it was assigned, or COUNTED_AFTER: the CI's counts include it
                 │  ▲ │
                 │  └─┘ the call failed: behind the others, which are asked for one by one
                 └──▶ another set has it: forgotten

An offer that the set has no room for stays open at the CI, where another set may acquire it. The CI reports it once,
so it is remembered, also in the record for the next holder, and acquired when there is room. A set that retires
acquires nothing.

One call asks for many offers, and one of them may be the reason why it fails. So after a failure the next call asks for
one offer, and after each success for twice as many. Where several offers in a row are refused one by one and none was
acquired before, the CI refuses the set, for example because of a missing permission: the others are not asked for.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from bullpen.errors import Refused, SessionGone, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model.scale_set import READY, ScaleSet
from bullpen.model.set_session import OFFERED_LIMIT
from bullpen.ports import JobMessage, JobMessageKind, MessageSession, ScaleSets, SetStatistics

MOST_OPEN = OFFERED_LIMIT  # offers; of more, the oldest are forgotten
MOST_CALLS = 30  # of one turn: each rids the set of as many offers of others as it has room for
MOST_REFUSED = 3  # calls in a row for one offer each, without any that succeeded: messages wait behind them
COUNTED_AFTER = 60.0  # seconds: a message that comes so long after an acquisition has counts that include it


@dataclass(frozen=True, slots=True)
class AcquireReport:
    """`acquired` counts the offers that are the set's now, `has_asked` says whether there was any offer to ask for, and
    `refusal` is the last one. If `gave_up`, the next offers would be refused, too."""

    acquired: int
    has_asked: bool
    refusal: Refused | None = None
    gave_up: bool = False


class JobOffers:
    def __init__(self, stored: Iterable[int] = ()) -> None:
        self._open: dict[int, None] = dict.fromkeys(stored)  # by the request, in the order of the offers
        self._acquired: dict[int, float] = {}  # when; the counts may not include these yet
        self._at_once = MOST_OPEN  # offers that one call asks for

    def all(self) -> tuple[int, ...]:
        """Those that are open, the oldest first."""
        return tuple(self._open)

    def hear(self, jobs: Iterable[JobMessage]) -> None:
        """A message came, perhaps once more. What is said of a job after its offer ends the offer."""
        for job in jobs:
            if not job.request or job.kind is JobMessageKind.UNKNOWN:
                continue
            if job.kind is not JobMessageKind.AVAILABLE:
                self._acquired.pop(job.request, None)
                self._open.pop(job.request, None)
            elif job.request not in self._acquired:  # otherwise it was acquired when its message came the first time
                self._open[job.request] = None
        for request in list(self._open)[:-MOST_OPEN]:
            del self._open[request]

    def affordable(
        self, scale_set: ScaleSet, counts: SetStatistics, time: float, without: Collection[int] = ()
    ) -> list[int]:
        """The offers that the set may acquire with the next call, the oldest first."""
        if scale_set.state is not READY:
            return []
        self._acquired = {one: at for one, at in self._acquired.items() if time - at < COUNTED_AFTER}
        room = scale_set.rules.max - max(counts.assigned, counts.acquired) - len(self._acquired)
        return [one for one in self._open if one not in without][: max(0, min(room, self._at_once))]

    def close(self, requests: Sequence[int], acquired: Collection[int], time: float) -> None:
        """The CI has answered: these are the set's now, and another set has the rest."""
        self._at_once = min(2 * self._at_once, MOST_OPEN)
        for request in requests:
            self._open.pop(request, None)
            if request in acquired:
                self._acquired[request] = time

    def put_back(self, requests: Sequence[int]) -> None:
        """The call failed. They stay on offer, behind the others: one of them may be the reason."""
        self._at_once = 1
        for request in requests:
            del self._open[request]
            self._open[request] = None


async def acquire(
    port: ScaleSets, session: MessageSession, offers: JobOffers, scale_set: ScaleSet, counts: SetStatistics
) -> AcquireReport:
    """Acquire until the set is full or no offer is left. An offer that the CI refuses alone stays for the next time.
    Raise Unavailable and SessionGone at once."""
    time = asyncio.get_running_loop().time
    refused, calls, has_succeeded, count = set[int](), 0, False, 0
    refusal: Refused | None = None
    while calls < MOST_CALLS and (has_succeeded or len(refused) < MOST_REFUSED):
        if not (requests := offers.affordable(scale_set, counts, time(), refused)):
            break
        calls += 1
        try:
            acquired = await port.acquire(session, requests)
        except (Unavailable, SessionGone):
            offers.put_back(requests)
            raise
        except Refused as exc:
            refusal = exc
            offers.put_back(requests)
            refused |= set(requests) if len(requests) == 1 else set()
        else:
            has_succeeded = True
            count += len(acquired)
            offers.close(requests, acquired, time())
    return AcquireReport(count, calls > 0, refusal, gave_up=not has_succeeded and len(refused) >= MOST_REFUSED)
