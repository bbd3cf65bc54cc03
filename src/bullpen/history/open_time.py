"""All time of a range: what the hours hold, and what is not booked yet, counted from the stories of the machines.

Bookings may land while this reads. So the meters are read before and after the hours: where they agree, each second is
either in an hour or after a meter. Changes nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from bullpen.history.bookkeeper import AT_ONCE
from bullpen.history.spans import rows, spans
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.model.transition import StoryLine
from bullpen.model.usage import Meter, UsageRow
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports

PAGE = 5000
ATTEMPTS = 4
ENDED = 10_000  # machines that have ended and are not booked: far more than a bookkeeper leaves


@dataclass(frozen=True, slots=True)
class _Books:
    """Where the bookings stand."""

    meters: dict[str, Meter]
    unbooked: tuple[str, ...]


async def usage_between(ports: Ports, since: datetime, until: datetime, now: datetime) -> list[UsageRow]:
    """The time of all machines in the hours that begin from `since` on and before `until`, up to `now`."""
    live = {one.id: one for one in await every_live(ports)}
    stored, after = await _consistent(ports, since, until)
    missing = [id for id in dict.fromkeys([*after.unbooked, *after.meters]) if id not in live]
    records = live | (await ports.records.instances(missing) if missing else {})
    opened = await _open(ports, records, after.meters, now)
    return stored + [row for row in opened if since <= row.hour < until]


async def _consistent(ports: Ports, since: datetime, until: datetime) -> tuple[list[UsageRow], _Books]:
    """Hours and meters of one moment. Where bookings land all the time, the last attempt has to do."""
    before = await _books(ports)
    for attempt in range(1, ATTEMPTS + 1):
        stored = await _stored(ports, since, until)
        after = await _books(ports)
        if after == before or attempt == ATTEMPTS:
            return stored, after
        before = after
    raise AssertionError("the last attempt returns")


async def _open(ports: Ports, records: dict[str, Instance], meters: dict[str, Meter], now: datetime) -> list[UsageRow]:
    changed = [one.id for one in records.values() if one.id not in meters or meters[one.id].version < one.version]
    stories: dict[str, list[StoryLine]] = {}
    for at in range(0, len(changed), AT_ONCE):
        stories |= await ports.records.stories(changed[at : at + AT_ONCE], Instance)
    found: list[UsageRow] = []
    for id, record in records.items():
        for span in spans(meters.get(id), record, stories.get(id, ()), now):
            found += rows(span, record)
    return added_up(found)


def added_up(given: Iterable[UsageRow]) -> list[UsageRow]:
    """Equal rows as one."""
    sums: dict[UsageRow, int] = {}
    for row in given:
        key = replace(row, microseconds=0)
        sums[key] = sums.get(key, 0) + row.microseconds
    return [replace(row, microseconds=micros) for row, micros in sums.items()]


async def _stored(ports: Ports, since: datetime, until: datetime) -> list[UsageRow]:
    found: list[UsageRow] = []
    after = ""
    while True:
        page = await ports.history.usage(since, until, PAGE, after)
        found += page.rows
        after = page.next
        if not after:
            return found


async def _books(ports: Ports) -> _Books:
    meters: dict[str, Meter] = {}
    page = await ports.history.open_meters(PAGE)
    while page:
        meters |= {meter.instance_id: meter for meter in page}
        page = await ports.history.open_meters(PAGE, page[-1].instance_id) if len(page) == PAGE else []
    return _Books(meters, tuple(await ports.history.unbooked(ENDED)))
