"""Pickup: hands out candidates from the pool to the claim workers of one provision.

    queue ──take──▶ judge ─┬─ TAKE ─────▶ a waiting worker
                           ├─ PUT_BACK ─▶ the queue, a little later: it fits others
                           └─ DROP

Each provision has one, shared by its claim workers. When the queue has nothing (left) for this run, it takes a *last
look* at the index of instances on offer. So an instance whose ticket was lost in a crash, or is hidden by another run's
put-back, is found before a machine is launched. Only then is the pool exhausted, and it stays so for this provision.

A run may accept a second usage class (spot that falls back to on-demand). Tickets of that class are kept in reserve
until the queue has no more of the requested one. The last look hands out the requested usage class first, then the
fallback.
"""

import asyncio
import hashlib
from collections import Counter, deque
from datetime import datetime

from bullpen.config import Settings
from bullpen.model.instance import Instance
from bullpen.model.ticket import Malformed, Requirements, Ticket, Verdict, judge, parse_ticket
from bullpen.pool import offering
from bullpen.ports import Message, Ports

INDEX_MARGIN = 10
"""Read from the index beyond what is wanted: other runs claim some before the answer arrives."""

PENDING_PAGE = 100
PENDING_PAGES = 20
"""Instances without an owner that a last look reads; most may not fit this run."""


class TicketPickup:
    def __init__(self, ports: Ports, settings: Settings, needs: Requirements, run_id: str, *, by: str) -> None:
        self._ports = ports
        self._settings = settings
        self._needs = needs
        self._class = settings.resource_class(needs.resource_class)
        self._by = by
        # Racing runs start at different places of the index, so that they do not all collide on its first entries.
        self._start = "i-" + hashlib.sha256(run_id.encode()).hexdigest()[:16]
        self._waiting: deque[asyncio.Future[Instance | None]] = deque()
        self._ready: deque[Instance] = deque()
        self._reserve: list[Instance] = []  # of the fallback, until the last look
        self._return_at_close: dict[str, Message] = {}  # tickets taken out or made here, by id, until a worker has them
        self._with_workers: dict[str, Message] = {}  # the same tickets, once a worker has them
        self._handed: dict[str, int] = {}  # id → version: no id is handed out twice
        self._seen: Counter[str] = Counter()
        self.verdicts = Counter[Verdict]()
        self._misses = 0
        self._queue_is_over = False
        self._exhausted = False
        self._supply: asyncio.Task[None] | None = None

    async def next(self) -> Instance | None:
        """A candidate to claim, or None: the pool is exhausted for this provision."""
        if self._exhausted:
            return None
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Instance | None] = loop.create_future()
        self._waiting.append(turn)
        if self._supply is None or self._supply.done():
            self._supply = loop.create_task(self._run())
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None and (got := turn.result()) is not None:
                self._take_back(got)
            raise

    async def close(self) -> None:
        """Return the fitting tickets that no worker needed, without delay."""
        if self._supply is not None:
            # Not cancelled: without waiting workers it ends after its step, and a step cut short would lose tickets.
            await self._supply
        if self._return_at_close:
            await self._ports.queue.send(self._needs.resource_class, list(self._return_at_close.values()))
            self._return_at_close.clear()

    async def _run(self) -> None:
        try:
            while self._hand_out():
                if not self._queue_is_over:
                    await self._receive()
                elif not await self._check_index():
                    self._exhausted = True
        except Exception as error:
            while self._waiting:
                turn = self._waiting.popleft()
                if not turn.done():
                    turn.set_exception(error)

    def _hand_out(self) -> bool:
        """Serve the waiting workers; True while one still waits."""
        while self._waiting and (self._ready or self._exhausted):
            turn = self._waiting.popleft()
            if turn.done():
                continue
            if not self._ready:
                turn.set_result(None)
                continue
            candidate = self._ready.popleft()
            self._handed[candidate.id] = candidate.version
            if (message := self._return_at_close.pop(candidate.id, None)) is not None:
                self._with_workers[candidate.id] = message
            turn.set_result(candidate)
        return any(not turn.done() for turn in self._waiting)

    def _take_back(self, candidate: Instance) -> None:
        """A worker was cancelled before it claimed its candidate: the ticket is still good."""
        del self._handed[candidate.id]
        message = self._with_workers.pop(candidate.id, None)
        self._return_at_close[candidate.id] = message or offering.ticket_message(candidate)

    async def _receive(self) -> None:
        wanted = sum(not turn.done() for turn in self._waiting)
        bodies = await self._ports.queue.take(self._needs.resource_class, wanted)
        taken = await self._sort(bodies) if bodies else False
        self._misses = 0 if taken else self._misses + 1
        seen_too_often = any(count >= self._settings.pickup.sightings for count in self._seen.values())
        if not bodies or seen_too_often or self._misses >= self._settings.pickup.misses:
            self._queue_is_over = True

    async def _sort(self, bodies: list[str]) -> bool:
        """Judge a batch; True if it has anything of the requested usage class for this run."""
        now = self._ports.clock.now()
        fits: list[Ticket] = []
        put_back: list[Message] = []
        for body in bodies:
            ticket = parse_ticket(body)
            if isinstance(ticket, Malformed):
                self.verdicts[Verdict.DROP] += 1
                continue
            self._seen[ticket.instance_id] += 1
            # Goes back unchanged, with fields that this version does not know; it expires with its offer.
            message = Message(body, expires=ticket.threshold)
            verdict = self._judge(ticket, now)
            self.verdicts[verdict] += 1
            match verdict:
                case Verdict.TAKE:
                    fits.append(ticket)
                    self._return_at_close[ticket.instance_id] = message  # at once: its double may be in the same batch
                case Verdict.PUT_BACK:
                    put_back.append(message)
        if put_back:
            await self._ports.queue.send(self._needs.resource_class, put_back, self._settings.timings.put_back)
        plain = [ticket.instance_id for ticket in fits if ticket.version is None]
        records = await self._ports.records.instances(plain) if plain else {}
        ready = [
            record
            for ticket in fits
            if (
                record := Instance.from_ticket(ticket)
                if ticket.version is not None
                else records.get(ticket.instance_id)
            )
            and record.is_claimable
        ]
        ready_ids = {record.id for record in ready}
        for ticket in fits:
            if ticket.instance_id not in ready_ids:
                del self._return_at_close[ticket.instance_id]
        requested = [record for record in ready if self._is_requested(record)]
        self._ready.extend(requested)
        self._reserve += [record for record in ready if not self._is_requested(record)]
        return bool(requested)

    def _is_requested(self, one: Instance) -> bool:
        return one.usage_class is self._needs.usage_class

    def _judge(self, ticket: Ticket, now: datetime) -> Verdict:
        handed = self._handed.get(ticket.instance_id)
        if handed is not None or ticket.instance_id in self._return_at_close:
            # It was handed out before. A newer offer of it is for other runs; an older one is stale.
            newer = handed is not None and ticket.version is not None and ticket.version > handed
            return Verdict.PUT_BACK if newer else Verdict.DROP
        return judge(ticket, self._needs, self._class.cpu, self._class.mem, now)

    async def _check_index(self) -> bool:
        """The last look, at the reserve too; True if there was anything new."""
        wanted = sum(not turn.done() for turn in self._waiting)
        limit = wanted + len(self._handed) + INDEX_MARGIN
        now = self._ports.clock.now()
        found = await self._ports.records.claimable(self._needs, now, limit, self._start)
        by_id = {one.id: one for one in (*self._reserve, *found)}
        fresh = [one for id, one in by_id.items() if id not in self._handed]
        if len(fresh) < wanted:
            fresh += await self._finish_pending(wanted - len(fresh))
        self._reserve.clear()
        self._ready.extend(sorted(fresh, key=self._is_requested, reverse=True))  # stable: otherwise in this order
        return bool(fresh)

    async def _finish_pending(self, wanted: int) -> list[Instance]:
        """Offer or adopt instances that have attested or booted, but are not on offer yet, if they fit this run."""
        offered: list[Instance] = []
        after = ""
        for _ in range(PENDING_PAGES):
            page = await self._ports.records.pending(self._needs.resource_class, PENDING_PAGE, after)
            offered += await self._land_fitting(page)
            if len(offered) >= wanted or len(page) < PENDING_PAGE:
                break
            after = page[-1].id
        return offered

    async def _land_fitting(self, pending: list[Instance]) -> list[Instance]:
        now = self._ports.clock.now()
        fitting = [one for one in pending if one.id not in self._handed and self.fits(one, now)]
        if not fitting:
            return []
        pulses = await self._ports.signals.read([one.id for one in fitting])
        landed = await offering.land_offers(self._ports, self._settings, fitting, pulses, by=self._by)
        offered = [one for one in landed.values() if isinstance(one, Instance)]
        self._return_at_close.update((one.id, offering.ticket_message(one)) for one in offered)
        return offered

    def fits(self, one: Instance, now: datetime) -> bool:
        """True if this run could use the instance, once it is on offer."""
        return judge(one.ticket(), self._needs, self._class.cpu, self._class.mem, now) is Verdict.TAKE
