"""All time of a range: what the hours hold, and what is not booked yet, counted from the stories of the machines.

Bookings may land while this reads. So the meters are read before and after the hours: where they agree, each second is
either in an hour or after a meter. Changes nothing.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from bullpen.history.bookkeeper import AT_ONCE
from bullpen.history.spans import rows, spans
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.model.transition import StoryLine
from bullpen.model.usage import Meter, UsageRow
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports

PAGE = 2000  # rows: some milliseconds of work, between which a server answers others
ATTEMPTS = 4
ENDED = 10_000  # machines that have ended and are not booked: far more than a bookkeeper leaves


@dataclass(frozen=True, slots=True)
class _Books:
    """Where the bookings stand. `over` are machines that a list still names, although all their time is booked: they
    have ended since it was read, or an index lags."""

    meters: dict[str, Meter]
    unbooked: tuple[str, ...]
    over: frozenset[str]


class TimeSums(Protocol):
    """Takes rows, and adds them up as a question wants them."""

    def add(self, rows: Iterable[UsageRow]) -> None: ...


T = TypeVar("T", bound=TimeSums)


async def usage_between(ports: Ports, since: datetime, until: datetime, now: datetime, make: Callable[[], T]) -> T:
    """The time of all machines in the hours that begin from `since` on and before `until`, up to `now`, added up in
    what `make` makes."""
    live = {one.id: one for one in await every_live(ports)}
    sums, after = await _consistent(ports, since, until, make, live)
    missing = [id for id in dict.fromkeys([*after.unbooked, *after.meters]) if id not in live and id not in after.over]
    records = {id: one for id, one in live.items() if id not in after.over}
    records |= await ports.records.instances(missing) if missing else {}
    async for opened in _open(ports, records, after.meters, now):
        sums.add(row for row in opened if since <= row.hour < until)
    return sums


async def _consistent(
    ports: Ports, since: datetime, until: datetime, make: Callable[[], T], live: Iterable[str]
) -> tuple[T, _Books]:
    """Hours and meters of one moment. Where bookings land all the time, the last attempt has to do."""
    listed = list(live)
    before = await _books(ports, listed)
    for attempt in range(1, ATTEMPTS + 1):
        sums, after = make(), ""
        while True:
            page = await ports.history.usage(since, until, PAGE, after)
            sums.add(page.rows)
            after = page.next
            if not after:
                break
        books = await _books(ports, listed)
        if books == before or attempt == ATTEMPTS:
            return sums, books
        before = books
    raise AssertionError("the last attempt returns")


async def _open(
    ports: Ports, records: dict[str, Instance], meters: dict[str, Meter], now: datetime
) -> AsyncIterator[list[UsageRow]]:
    """What is not booked yet, of some machines at a time."""
    ids = list(records)
    for at in range(0, len(ids), AT_ONCE):
        some = ids[at : at + AT_ONCE]
        changed = [id for id in some if id not in meters or meters[id].version < records[id].version]
        stories: dict[str, list[StoryLine]] = await ports.records.stories(changed, Instance) if changed else {}
        yield [
            row
            for id in some
            for span in spans(meters.get(id), records[id], stories.get(id, ()), now)
            for row in rows(span, records[id])
        ]


async def _books(ports: Ports, live: Iterable[str]) -> _Books:
    meters: dict[str, Meter] = {}
    page = await ports.history.open_meters(PAGE)
    while page:
        meters |= {meter.instance_id: meter for meter in page}
        page = await ports.history.open_meters(PAGE, page[-1].instance_id) if len(page) == PAGE else []
    unbooked = await ports.history.unbooked(ENDED)
    unmetered = [id for id in dict.fromkeys([*live, *unbooked]) if id not in meters]
    over = await ports.history.over(unmetered) if unmetered else []
    return _Books(meters, tuple(unbooked), frozenset(over))
