"""Warm: each class has its idle target on offer; the youngest are kept, only the surplus expires."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial

from bullpen import handover
from bullpen.config import Settings
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.instance import Instance
from bullpen.ports import Ports
from bullpen.provision.book import Book
from bullpen.provision.creation import Creation
from bullpen.provision.holdings import Holdings
from bullpen.refresh.action import Action, Plan

BY = "refresh"


async def plans(ports: Ports, settings: Settings, live: Sequence[Instance]) -> AsyncIterator[Plan]:
    now = ports.clock.now()
    for name, own_class in settings.classes.items():
        of_class = [one for one in live if one.resource_class == name]
        pending = [one for one in of_class if one.is_pending]
        if pending:
            yield await _finish(ports, settings, pending)
        on_offer = [one for one in of_class if one.is_claimable]
        youngest = sorted(on_offer, key=lambda one: (one.offered_at or now, one.id), reverse=True)
        kept, surplus = youngest[: own_class.idle_target], youngest[own_class.idle_target :]
        if ageing := [one for one in kept if one.threshold <= handover.later(now, settings.timings.idle / 2)]:
            yield _keeping(ports, settings, ageing, now)
        if expired := [one for one in surplus if one.threshold <= now]:
            yield Plan(
                tuple(Action("terminate", one.id, "idle past its threshold") for one in expired),
                partial(handover.expire_and_terminate, ports, settings, expired, "idle past its threshold", by=BY),
            )
        missing = own_class.idle_target - len(on_offer) - len(pending)
        if missing > 0:
            action = Action("create", f"{missing} × {name}", f"the idle target is {own_class.idle_target}")
            yield Plan((action,), partial(_create, ports, settings, name, missing))


async def _finish(ports: Ports, settings: Settings, pending: Sequence[Instance]) -> Plan:
    """Offer and adopt what has attested or booted meanwhile; its head start does not matter to us."""
    pulses = await ports.signals.read([one.id for one in pending])
    proven = [one for one in pending if handover.is_proven(one, pulses[one.id])]
    return Plan(
        tuple(Action("offer", one.id, "attested, and not on offer yet") for one in proven),
        partial(handover.offer_proven, ports, settings, proven, pulses, by=BY),
    )


def _keeping(ports: Ports, settings: Settings, ageing: Sequence[Instance], now: datetime) -> Plan:
    event = instances.Kept(
        at=now, by=BY, why="kept for the idle target", until=handover.later(now, settings.timings.idle)
    )

    async def perform() -> None:
        landed = await ports.records.apply_each([instances.keep(one, event) for one in ageing])
        await handover.send_tickets(ports, [one for one in landed if isinstance(one, Instance)])

    return Plan(tuple(Action("keep", one.id, "the idle target needs it") for one in ageing), perform)


async def _create(ports: Ports, settings: Settings, name: str, count: int) -> None:
    """Launch for nobody in particular. The machines are adopted once they have booted, by whoever looks first."""
    now = ports.clock.now()
    id = f"p-{ports.chance.token()}"
    deadline = handover.later(now, settings.timings.provision)
    asked = provisions.absent(id, "", count, settings.requirements(name), deadline, 0.0)
    (record,) = await ports.records.apply(provisions.open_(asked, provisions.Opened(at=now, by=BY, why="warm")))
    book, holdings = Book(ports, record), Holdings(ports)
    creation = Creation(ports, settings, book, holdings, allow_partial=True, by=BY)
    due = handover.later(now, settings.timings.takeover)
    await asyncio.gather(*(creation.create() for _ in range(count)))
    if members := tuple(holdings.held):
        await book.write(provisions.commit, provisions.Decided(at=now, by=BY, members=members, settle_due=due))
    else:
        why = str(creation.refusal)
        await book.write(provisions.abort, provisions.Aborted(at=now, by=BY, why=why, settle_due=due))
    await ports.records.apply_each([handover.settling(settings, book.record, now, BY)])
