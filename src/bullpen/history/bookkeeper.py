"""Bookkeeper: books the time of machines by the hour and by owner, exactly once, however often it is killed.

    ended, not booked to its end ──▶ booked, and over            before every purge; refresh, serve
    six steps since its meter    ──▶ booked up to the last one   refresh, serve, release: a story has 16 steps
    an hour since its meter      ──▶ booked up to now            serve

A booking lands with the meter that it read, so of two bookkeepers one loses and nothing is booked twice. What one that
was killed has not booked is still in the story of the machine, for the next one. `bullpen cost` counts what is not
booked yet from there, too.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.errors import BullpenError, Outdated
from bullpen.history.spans import booking
from bullpen.model.instance import Instance
from bullpen.model.times import EPOCH
from bullpen.model.transition import STORY_LENGTH
from bullpen.model.usage import Booking, Meter, Owner
from bullpen.pool.live_instances import live_pages
from bullpen.ports import Ports
from bullpen.structured_log import get_logger

LANDING = timedelta(seconds=5)
"""What is newer is left for later: a step may be on its way to the store, with the time at which it began."""

AHEAD = STORY_LENGTH // 2 - 2
"""Steps after which a machine is booked: early enough that its story has forgotten none, late enough to be rare."""

AT_ONCE = 100  # machines whose stories are read together
ENDED_PAGE = 500
ENDED_PAGES = 20  # read by one call: the rest is left for the next one
FORGOTTEN_AT_ONCE = 1000

log = get_logger("bullpen.history")


def settled(ports: Ports) -> datetime:
    """Up to when time is booked."""
    return ports.clock.now() - LANDING


def has_moved_on(record: Instance, meter: Meter | None) -> bool:
    """Whether so many steps are not booked that the story may soon forget some."""
    return record.version - (meter.version if meter else 0) >= AHEAD


async def book(
    ports: Ports, records: Iterable[Instance], meters: Mapping[str, Meter], to: datetime
) -> dict[str, Meter]:
    """Book what is not booked yet of these machines, up to a time; returns the meters afterwards. A machine that
    another process booked at the same moment is missing there."""
    after: dict[str, Meter] = {}
    listed = list(records)
    for at in range(0, len(listed), AT_ONCE):
        due = {record.id: record for record in listed[at : at + AT_ONCE]}
        stories = await ports.records.stories(list(due), Instance)
        known = {id: meters[id] for id in due if id in meters}
        while due:
            found = {
                id: one
                for id, record in due.items()
                if (one := booking(known.get(id), record, stories.get(id, ()), to)) is not None
            }
            after |= {id: known[id] for id in due if id not in found and id in known}
            landed = await ports.history.book(list(found.values())) if found else []
            done = {id: one.after for (id, one), has in zip(found.items(), landed, strict=True) if has}
            known |= done
            due = {id: due[id] for id, meter in done.items() if not meter.over}
            after |= {id: meter for id, meter in done.items() if meter.over}
    return after


async def book_ended(ports: Ports) -> None:
    """Book every machine that has ended to its end."""
    for _ in range(ENDED_PAGES):
        ids = await ports.history.unbooked(ENDED_PAGE)
        if not ids:
            return
        meters, records = await ports.history.meters(ids), await ports.records.instances(ids)
        # The time of a story that is lost is lost: the machine is taken off the list.
        await _close(ports, ids, meters | await book(ports, records.values(), meters, settled(ports)))
        if len(ids) < ENDED_PAGE:
            return


async def book_moved_on(ports: Ports, live: Sequence[Instance]) -> None:
    """Book those of these machines whose stories would soon forget a step. Asks nothing if none can be one."""
    candidates = [one for one in live if has_moved_on(one, None)]
    if not candidates:
        return
    meters = await ports.history.meters([one.id for one in candidates])
    due = [one for one in candidates if has_moved_on(one, meters.get(one.id))]
    if due:
        await book(ports, due, meters, EPOCH)  # up to the last step: nothing here hurries


async def forget(ports: Ports, settings: Settings) -> None:
    """Remove a bounded number of what is older than `history.keep`."""
    before = ports.clock.now() - timedelta(days=settings.history.keep)
    for _ in range(ENDED_PAGES):
        if await ports.history.forget(before, FORGOTTEN_AT_ONCE) < FORGOTTEN_AT_ONCE:
            return


async def quietly(work: Awaitable[object]) -> None:
    """History is for people: work goes on although it cannot be written. What was not booked is booked later."""
    try:
        await work
    except Outdated:
        raise
    except BullpenError as failure:
        log.warning("history not written", error=failure, remedy=failure.remedy or None)


async def _close(ports: Ports, ids: Iterable[str], meters: Mapping[str, Meter]) -> None:
    """Nothing more is known of these machines: their meters are over as they are."""
    now = ports.clock.now()
    closing = []
    for id in ids:
        meter = meters.get(id)
        if meter is None or not meter.over:
            last = meter or Meter(id, 0, now, Owner.CLEANING, 0)
            closing.append(Booking(meter, replace(last, revision=last.revision + 1, over=True), ()))
    if closing:
        await ports.history.book(closing)


class Bookkeeper:
    """Of one process that runs for long: it remembers the meters, and reads again only what another process changed."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._settings = settings
        self._meters: dict[str, Meter] | None = None
        self._forgot_at: datetime | None = None

    async def run_once(self) -> None:
        await book_ended(self._ports)
        known = self._meters if self._meters is not None else await self._open_meters()
        self._meters = None  # an error leaves it unknown what has landed
        to = settled(self._ports)
        living: set[str] = set()
        async for page in live_pages(self._ports):
            living.update(one.id for one in page)
            known = await self._book([one for one in page if _is_due(one, known.get(one.id), to)], known, to)
        self._meters = await self._close_gone(known, living, to)
        if self._forgot_at is None or self._ports.clock.now() - self._forgot_at >= timedelta(hours=1):
            await forget(self._ports, self._settings)
            self._forgot_at = self._ports.clock.now()

    async def _book(self, due: Sequence[Instance], known: dict[str, Meter], to: datetime) -> dict[str, Meter]:
        if not due:
            return known
        after = await book(self._ports, due, known, to)
        known |= after
        if lost := [one.id for one in due if one.id not in after]:
            current = await self._ports.history.meters(lost)
            known = {id: meter for id, meter in known.items() if id not in lost} | current
        return known

    async def _close_gone(self, known: dict[str, Meter], living: set[str], to: datetime) -> dict[str, Meter]:
        """Machines that were metered and are on no list: they have ended, or a lagging index hides them, or their
        records are gone."""
        gone = [id for id, meter in known.items() if id not in living and not meter.over]
        if gone:
            records = await self._ports.records.instances(gone)
            ended = [one for one in records.values() if one.purge_at is not None]
            await self._book(ended, known, to)
            await _close(self._ports, [id for id in gone if id not in records], known)
        return {id: meter for id, meter in known.items() if id in living and not meter.over}

    async def _open_meters(self) -> dict[str, Meter]:
        found: dict[str, Meter] = {}
        page = await self._ports.history.open_meters(1000)
        while page:
            found |= {meter.instance_id: meter for meter in page}
            page = await self._ports.history.open_meters(1000, page[-1].instance_id) if len(page) == 1000 else []
        return found


def _is_due(record: Instance, meter: Meter | None, to: datetime) -> bool:
    if meter is None or has_moved_on(record, meter):
        return True
    return to.replace(minute=0, second=0, microsecond=0) > meter.until
