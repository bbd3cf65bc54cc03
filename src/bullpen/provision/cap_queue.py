"""The queue at a full cap. With `--wait` a provision waits there for room: first come, first served.

    open ──▶ none in front, and it can be served ─────────────────────────────▶ acquire ──▶ leaves the queue once its
      │                                                       ▲                    │        fleet has launched, or with
      └──▶ wait: has a place, and holds nothing ──────────────┘ admit              │        the decision
                          ▲                                                        │
                          └──── another was faster: everything is given back ──────┘

A later provision does not overtake. Without `--wait` it fails at once while others wait at one of its caps. It may
pass only if it takes nothing that those in front could use: it is of another class than all of them, its class has all
it needs on offer, and no idle instance above the idle target, which those in front could evict.
"""

import asyncio
from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.errors import LimitReached, Unavailable
from bullpen.model import provision as provisions
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.provision import Place
from bullpen.model.times import later
from bullpen.pool import debts
from bullpen.ports import Ports
from bullpen.provision.caps import Shortage, caps, in_front
from bullpen.provision.eviction import QUEUE_PAGE, Headroom
from bullpen.provision.outcome import Request
from bullpen.provision.record import ProvisionRecord

LONGEST_TICK = 2.0
"""Seconds between two checks if no event comes."""
TAKE_OVER = 20
"""Debts of others that a waiting provision pays now and then: an instance that is owed may be what it waits for."""


def place_until(settings: Settings, now: datetime) -> datetime:
    """How long a place lasts without a renewal: six missed ones, because clocks may differ a little."""
    return later(now, 2 * settings.timings.alive)


class CapQueue:
    """One provision in the queue. Its place keeps the time of its first wait."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        request: Request,
        record: ProvisionRecord,
        headroom: Headroom,
        tell: Tell,
        *,
        by: str,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._request = request
        self._record = record
        self._headroom = headroom
        self._tell = tell
        self._by = by
        self._waits_until = later(ports.clock.now(), request.wait)
        self.ends_by = later(self._waits_until, settings.timings.provision)
        self._last_since: datetime | None = None  # of the last in the queue
        self._is_waiting = False
        self._told = ""

    @property
    def is_open(self) -> bool:
        """True while this provision may wait."""
        return self._request.wait > 0 and self._ports.clock.now() < self._waits_until

    async def admitted(self, want: int) -> None:
        """Return when it is this provision's turn and there is room. Raise LimitReached if it may not wait, or has
        waited long enough."""
        least = 1 if self._request.allow_partial else want
        tick, pays_at = self._settings.timings.tick_first, 0.0
        loop = asyncio.get_running_loop()
        while True:
            try:
                if (obstacle := await self._obstacle(least)) is None:
                    return await self._leave()
                self._check_possible()
                if not self.is_open:
                    raise self._given_up(obstacle)
                await self._take_place(obstacle)
                if self._report(obstacle):
                    tick = self._settings.timings.tick_first
                if loop.time() >= pays_at:
                    pays_at = loop.time() + self._settings.timings.takeover
                    await debts.pay_due(self._ports, self._settings, TAKE_OVER, by=self._by)
            except Unavailable:
                if not (self._is_waiting and self.is_open):
                    raise
            await self._rest(tick)
            tick = min(tick * 1.5, LONGEST_TICK)

    async def _obstacle(self, least: int) -> Shortage | None:
        """Why it is not this provision's turn, or why there is no room now."""
        own, now = self._record.stored, self._ports.clock.now()
        queue = await self._ports.records.waiting_provisions(QUEUE_PAGE)
        self._last_since = queue[-1].place.since if queue and queue[-1].place else None
        if front := in_front(queue, own.needs.resource_class, now, own.id, self._headroom.since):
            return await self._headroom.behind(front, own, least)
        # Without --wait, and with none in front: a lack of room shows when the machines are requested.
        return await self._headroom.foreseen(own, least) if self._request.wait else None

    async def _take_place(self, obstacle: Shortage) -> None:
        if self._is_waiting and self._record.stored.waits_for == obstacle.cap.setting:
            return
        now = self._ports.clock.now()
        if self._headroom.since is None:
            # Behind the last one, whatever this clock says.
            after = self._last_since + timedelta(microseconds=1) if self._last_since else now
            self._headroom.since = max(now, after)
        place = Place(obstacle.cap.setting, self._headroom.since, place_until(self._settings, now))
        waited = provisions.Waited(at=now, by=self._by, why=str(obstacle.error), place=place, deadline=self.ends_by)
        await self._record.write(provisions.wait, waited)
        self._is_waiting = True

    async def _leave(self) -> None:
        """Begin to acquire. The place is kept until the provision has what it waited for."""
        if not self._is_waiting:
            return
        now = self._ports.clock.now()
        deadline = later(now, self._settings.timings.provision)
        until = place_until(self._settings, now)
        admitted = provisions.Admitted(at=now, by=self._by, why="its turn", deadline=deadline, until=until)
        await self._record.write(provisions.admit, admitted)
        self._is_waiting = False

    async def _rest(self, tick: float) -> None:
        """Wait until something may have changed. Events come in bursts: ten checks a second are enough."""
        await asyncio.sleep(self._settings.timings.tick_first)
        left = (self._waits_until - self._ports.clock.now()).total_seconds()
        await self._ports.signals.wait(max(min(tick, left), 0.001))

    def _check_possible(self) -> None:
        if not self._request.wait or self._request.allow_partial:
            return
        for cap in caps(self._settings, self._request.needs.resource_class):
            if self._request.count > cap.limit:
                raise LimitReached(
                    f"{cap.setting} is {cap.limit}: {self._request.count} will never fit, however long it waits",
                    remedy="Ask for fewer runners, or raise the limit.",
                )

    def _given_up(self, obstacle: Shortage) -> LimitReached:
        if not self._request.wait:
            return obstacle.error
        remedy = "Wait longer, release runners, or raise the limit."
        return LimitReached(f"waited {self._request.wait:g} s: {obstacle.error}", remedy=remedy)

    def _report(self, obstacle: Shortage) -> bool:
        """Report the obstacle; True if it has changed."""
        line = f"waiting for room: {obstacle.error}"
        before, self._told = self._told, line
        if line != before:
            self._tell(ProgressReport(WorkPhase.QUEUE, line, about=obstacle.cap.setting))
        return line != before
