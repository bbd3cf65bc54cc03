"""The queue at a full cap. With `--wait` a provision waits there for room: first come, first served.

    open ──▶ none in front, and it can be served ─────────────────────────────▶ acquire ──▶ leaves the queue once its
      │                                                       ▲                    │        fleet has launched, or with
      └──▶ wait: has a place, and holds nothing ──────────────┘ admit              │        the decision
                          ▲                                                        │
                          └──── another was faster: everything is given back ──────┘

While an operator has paused the class or the whole pool, a provision waits here for the resume in the same way, in
front of no other. The pauses come with the queue in one request, so they cost none. One that has begun to acquire goes
on.

A later provision does not overtake. Without `--wait` it fails at once while others wait at one of its caps. It may
pass only if it takes nothing that those in front could use: it is of another class than all of them, its class has all
it needs on offer, and no idle instance above the idle target, which those in front could evict.
"""

import asyncio
from dataclasses import field
from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.errors import LimitReached, OnHold, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model import provision as provisions
from bullpen.model.pause import paused_by
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.provision import Place
from bullpen.model.times import later
from bullpen.pool import debts
from bullpen.ports import Ports
from bullpen.provision.caps import Shortage, caps, in_front, paused
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


@dataclass(slots=True)
class CapQueue:
    """One provision in the queue. Its place keeps the time of its first wait."""

    ports: Ports
    settings: Settings
    request: Request
    record: ProvisionRecord
    headroom: Headroom
    tell: Tell
    by: str
    heeds_pauses: bool = True  # False for one that replaces members which its call has just lost: the call has begun
    waits_until: datetime = field(init=False)
    last_since: datetime | None = None  # of the last in the queue
    is_waiting: bool = False
    reported: str = ""

    def __post_init__(self) -> None:
        self.waits_until = later(self.ports.clock.now(), self.request.wait)

    @property
    def ends_by(self) -> datetime:
        return later(self.waits_until, self.settings.timings.provision)

    @property
    def is_open(self) -> bool:
        """True while this provision may wait."""
        return self.request.wait > 0 and self.ports.clock.now() < self.waits_until

    async def admitted(self, want: int) -> None:
        """Return when it is this provision's turn and there is room. Raise LimitReached if it may not wait, or has
        waited long enough."""
        least = 1 if self.request.allow_partial else want
        tick, pays_at = self.settings.timings.tick_first, 0.0
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
                    tick = self.settings.timings.tick_first
                if loop.time() >= pays_at:
                    pays_at = loop.time() + self.settings.timings.takeover
                    await debts.pay_due(self.ports, self.settings, TAKE_OVER, by=self.by)
            except Unavailable:
                if not (self.is_waiting and self.is_open):
                    raise
            await self._rest(tick)
            tick = min(tick * 1.5, LONGEST_TICK)

    async def _obstacle(self, least: int) -> Shortage | None:
        """Why it is not this provision's turn, or why there is no room now."""
        own, now = self.record.stored, self.ports.clock.now()
        queue, pauses = await self.ports.records.ahead(QUEUE_PAGE)
        self.last_since = queue[-1].place.since if queue and queue[-1].place else None
        if self.heeds_pauses and (pause := paused_by(pauses, own.needs.resource_class)) is not None:
            return paused(pause, own.want)
        if front := in_front(queue, own.needs.resource_class, now, own.id, self.headroom.since):
            return await self.headroom.behind(front, own, least)
        # Without --wait, and with none in front: a lack of room shows when the machines are requested.
        return await self.headroom.foreseen(own, least) if self.request.wait else None

    async def _take_place(self, obstacle: Shortage) -> None:
        if self.is_waiting and self.record.stored.waits_for == obstacle.cap.setting:
            return
        now = self.ports.clock.now()
        if self.headroom.since is None:
            # Behind the last one, whatever this clock says.
            after = self.last_since + timedelta(microseconds=1) if self.last_since else now
            self.headroom.since = max(now, after)
        place = Place(obstacle.cap.setting, self.headroom.since, place_until(self.settings, now))
        waited = provisions.Waited(at=now, by=self.by, why=str(obstacle.error), place=place, deadline=self.ends_by)
        await self.record.write(provisions.wait, waited)
        self.is_waiting = True

    async def _leave(self) -> None:
        """Begin to acquire. The place is kept until the provision has what it waited for."""
        if not self.is_waiting:
            return
        now = self.ports.clock.now()
        deadline = later(now, self.settings.timings.provision)
        until = place_until(self.settings, now)
        admitted = provisions.Admitted(at=now, by=self.by, why="its turn", deadline=deadline, until=until)
        await self.record.write(provisions.admit, admitted)
        self.is_waiting = False

    async def _rest(self, tick: float) -> None:
        """Wait until something may have changed. Events come in bursts: ten checks a second are enough."""
        await asyncio.sleep(self.settings.timings.tick_first)
        left = (self.waits_until - self.ports.clock.now()).total_seconds()
        await self.ports.signals.wait(max(min(tick, left), 0.001))

    def _check_possible(self) -> None:
        if not self.request.wait or self.request.allow_partial:
            return
        for cap in caps(self.settings, self.request.needs.resource_class):
            if self.request.count > cap.limit:
                raise LimitReached(
                    f"{cap.setting} is {cap.limit}: {self.request.count} will never fit, however long it waits",
                    remedy="Ask for fewer runners, or raise the limit.",
                )

    def _given_up(self, obstacle: Shortage) -> LimitReached:
        if not self.request.wait:
            return obstacle.error
        if isinstance(obstacle.error, OnHold):
            return OnHold(f"waited {self.request.wait:g} s: {obstacle.error}", remedy=obstacle.error.remedy)
        remedy = "Wait longer, release runners, or raise the limit."
        return LimitReached(f"waited {self.request.wait:g} s: {obstacle.error}", remedy=remedy)

    def _report(self, obstacle: Shortage) -> bool:
        """Report the obstacle; True if it has changed."""
        line = f"waiting for {'the resume' if isinstance(obstacle.error, OnHold) else 'room'}: {obstacle.error}"
        before, self.reported = self.reported, line
        if line != before:
            self.tell(ProgressReport(WorkPhase.QUEUE, line, about=obstacle.cap.setting))
        return line != before
