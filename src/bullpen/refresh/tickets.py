"""Tickets: about one for each instance on offer. Lost ones are sent again, and many stale ones are removed.

Tickets are hints: neither too few nor too many lead to a wrong claim. But without a ticket an instance is only found by
a last look, and a provision that meets a hundred stale tickets pays for a hundred claims.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from bullpen.config import Settings
from bullpen.model.instance import Instance
from bullpen.model.ticket import Ticket, parse_ticket
from bullpen.pool import offering
from bullpen.ports import Ports
from bullpen.refresh.action import Action, Plan

SPARE = 10
"""Stale tickets that are tolerated: an instance that was kept, or claimed by a last look, leaves one or two."""

BATCH = 100
MOST = 10_000
"""Tickets that one refresh reads. While it holds them they are hidden: runs find the instances by a last look."""


async def plans(ports: Ports, settings: Settings, live: Sequence[Instance], *, dry_run: bool) -> AsyncIterator[Plan]:
    now = ports.clock.now()
    short: dict[str, list[Instance]] = {}
    for name in settings.classes:
        # Past its threshold it cannot be claimed, and its ticket is gone.
        offers = [one for one in live if one.is_claimable and one.resource_class == name and one.threshold > now]
        count = await ports.queue.count(name)
        if count < len(offers):
            short[name] = offers
        if count > 2 * len(offers) + SPARE:
            counts = f"tickets: {count}, instances on offer: {len(offers)}"
            action = Action("drop stale tickets", name, counts, kind=name)
            yield Plan((action,), partial(_drop_stale, ports, name, min(count, MOST)))
    since = await ports.observations.observe("fewer tickets than offers", list(short), now, remember=not dry_run)
    for name, offers in short.items():
        if since[name] < now:
            # The same version: harmless if the old ticket turns up.
            reason = f"twice it had fewer tickets than instances on offer ({len(offers)})"
            action = Action("send tickets", name, reason, kind=name)
            yield Plan((action,), partial(offering.send_tickets, ports, offers))


async def _drop_stale(ports: Ports, name: str, most: int) -> None:
    """Take all tickets, and send back one for each instance on offer that had one.

    Sent back at the end, so that none is taken twice. If refresh is killed before that, some offers have no ticket: the
    next refreshes send them again.
    """
    current: dict[str, Instance] = {}
    taken = 0
    while taken < most and (bodies := await ports.queue.take(name, BATCH)):
        taken += len(bodies)
        tickets = [found for body in bodies if isinstance(found := parse_ticket(body), Ticket)]
        # Read after the tickets were taken: one is sent after its record was written, so none is newer than this.
        known = await ports.records.instances(list(dict.fromkeys(ticket.instance_id for ticket in tickets)))
        for ticket in tickets:
            one = known.get(ticket.instance_id)
            if one is not None and one.is_claimable and ticket.version in (None, one.version):
                current[one.id] = one
    await offering.send_tickets(ports, list(current.values()))
