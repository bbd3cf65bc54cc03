"""Offering: instances that were given back, or booted ahead of any run, prove themselves and go on offer.

As with every handover nobody is trusted to be alone: whoever comes second finds that somebody else has offered an
instance, or that it is another run's by now, and leaves it at that.
"""

import asyncio
from collections.abc import Collection, Sequence

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, Instance
from bullpen.model.signal import Kind, Pulse
from bullpen.model.transition import Change
from bullpen.pool import busy
from bullpen.pool.lifecycle import Fate, end_together, expire_and_terminate, later
from bullpen.pool.watcher import Watcher
from bullpen.ports import Message, Ports


async def await_and_offer(
    ports: Ports,
    settings: Settings,
    cleaning: Sequence[Instance],
    *,
    by: str,
    enough: Kind = Kind.CLEAN_OK,
    patience: float | None = None,
    stop: asyncio.Event | None = None,
) -> dict[str, Fate]:
    """Wait until each instance, given back just now, has attested, and put it on offer.

    No attestation in time ends it, and so does an agent that falls silent, or whose machine is to be taken away. One
    that got a job before it knew that it was given back is neither ended nor waited for: its debt stays. Returns when
    all are decided, or have reached `enough`; after `stop`, the rest is left as debts.
    """
    fates = {one.id: Fate.CLEANING for one in cleaning}
    waiting = {one.id: one for one in cleaning if one.state is IDLE and not one.attested}
    loop = asyncio.get_running_loop()
    give_up = loop.time() + (settings.timings.cleaning if patience is None else patience)
    look_at = loop.time() + settings.timings.takeover
    tick = settings.timings.tick_first
    watcher = Watcher(ports.signals, ports.clock, settings.timings)
    while waiting:
        pulses = await watcher.look(list(waiting))
        # A signal of this round was written after it was given back: a sign of life, whatever its clock says.
        fates |= await offer_living(ports, settings, list(waiting.values()), pulses, by=by, living=waiting)
        if loop.time() >= look_at:
            fates |= await _seen_to(ports, [one for one in waiting.values() if fates[one.id] is Fate.CLEANING])
            look_at = loop.time() + settings.timings.takeover
        named = busy.activities(settings, pulses)
        at_work = {id: job for id, job in named.items() if fates[id] is Fate.CLEANING and watcher.lives(id)}
        await busy.spare(ports, settings, waiting.values(), at_work, by=by)
        fates |= dict.fromkeys(at_work, Fate.BUSY)
        late = loop.time() >= give_up
        hopeless = [
            (one, why)
            for one in waiting.values()
            if fates[one.id] is Fate.CLEANING
            and (why := _hopeless(settings, one, pulses[one.id], late=late, silent=watcher.is_silent(one.id)))
        ]
        if hopeless:
            fates |= await end_together(ports, settings, hopeless, by=by)
        waiting = {
            one.id: one
            for one in waiting.values()
            if fates[one.id] is Fate.CLEANING
            and not ((s := pulses[one.id].signal) is not None and s.proves(enough, one.round))
        }
        if not waiting or (stop is not None and stop.is_set()):
            break
        await ports.signals.wait(tick)
        tick = min(tick * 1.5, settings.timings.tick_longest)
    return fates


async def _seen_to(ports: Ports, waiting: Sequence[Instance]) -> dict[str, Fate]:
    """Those that others, who may pay our debts by now, have put on offer: whose instance it is next is another round,
    and its agent never speaks of ours again."""
    found = await ports.records.instances([one.id for one in waiting]) if waiting else {}
    ours = {one.id for one in waiting if (now := found.get(one.id)) and now.is_pending and now.round == one.round}
    return {one.id: _fate_now(found.get(one.id)) for one in waiting if one.id not in ours}


def _hopeless(settings: Settings, one: Instance, pulse: Pulse, *, late: bool, silent: bool) -> str:
    """Why an attestation is no longer awaited; empty if it is."""
    if pulse.signal is not None and pulse.signal.fails(one.round) and not busy.is_excused(settings, one, pulse):
        return f"{pulse.signal.kind}: {pulse.signal.text}"
    if pulse.departure:
        return pulse.departure
    if late:
        return "did not attest in time"
    return "its agent is silent" if silent else ""


async def offer_proven(
    ports: Ports, settings: Settings, pending: Sequence[Instance], pulses: dict[str, Pulse], *, by: str
) -> dict[str, Fate]:
    """Put on offer those that are proven and alive; one that looks silent is watched for a heartbeat first.

    Who stays silent is left to its threshold, and ended once that has passed; one whose machine is about to be taken
    away is ended at once.
    """
    now, within = ports.clock.now(), settings.timings.alive
    proven = [one for one in pending if is_proven(one, pulses[one.id])]
    quiet = [one for one in proven if not pulses[one.id].is_recent(now, within)]
    moving: set[str] = set()
    if quiet:
        watcher = Watcher(ports.signals, ports.clock, settings.timings)
        moving = await watcher.signs_of_life([one.id for one in quiet])
    fates = await offer_living(ports, settings, proven, pulses, by=by, living=moving)
    if leaving := [(one, why) for one in proven if (why := pulses[one.id].departure)]:
        fates |= await end_together(ports, settings, leaving, by=by)
    if overdue := [one for one in quiet if one.id not in moving | set(fates) and one.threshold <= now]:
        fates |= await expire_and_terminate(ports, settings, overdue, "its agent is silent", by=by)
    return fates


async def offer_living(
    ports: Ports,
    settings: Settings,
    pending: Sequence[Instance],
    pulses: dict[str, Pulse],
    *,
    by: str,
    living: Collection[str] = (),
) -> dict[str, Fate]:
    """Land the offers of those that are proven and alive, and send their tickets."""
    landed = await land_offers(ports, settings, pending, pulses, by=by, living=living)
    await send_tickets(ports, [one for one in landed.values() if isinstance(one, Instance) and one.is_claimable])
    return {id: _fate_of_offer(one) for id, one in landed.items()}


def _fate_of_offer(landed: Instance | Conflict) -> Fate:
    """One that somebody else has put on offer before us is on offer, whoever has it by now."""
    if isinstance(landed, Instance):
        return Fate.OFFERED
    return _fate_now(landed.found if isinstance(landed.found, Instance) else None)


def _fate_now(found: Instance | None) -> Fate:
    """What became of one that we had given back, and that moved on without us."""
    return Fate.OFFERED if found is not None and found.state in (IDLE, CLAIMED, RUNNING) else Fate.NOT_OURS


async def land_offers(
    ports: Ports,
    settings: Settings,
    pending: Sequence[Instance],
    pulses: dict[str, Pulse],
    *,
    by: str,
    living: Collection[str] = (),
) -> dict[str, Instance | Conflict]:
    """Offer or adopt those that are proven and alive; by id the records on offer, or how somebody else moved first.

    `living` have moved under the caller's eyes; of everybody else the heartbeat must be recent: what booted or cleaned
    long ago may be dead by now.
    """
    now = ports.clock.now()
    until = later(now, settings.timings.idle)
    changes: list[Change[Instance]] = []
    for one in pending:
        pulse = pulses[one.id]
        signal = pulse.signal
        if signal is None or not is_proven(one, pulse) or pulse.departure:
            continue
        if one.id not in living and not pulse.is_recent(now, settings.timings.alive):
            continue
        if one.state is IDLE:
            offered = instances.Offered(at=now, by=by, why="attested clean", signal=signal, until=until)
            changes.append(instances.offer(one, offered))
        else:
            adopted = instances.Adopted(at=now, by=by, why="booted", signal=signal, until=until)
            changes.append(instances.adopt(one, adopted))
    results = await ports.records.apply_each(changes)
    return {change.before.id: result for change, result in zip(changes, results, strict=True)}


def is_proven(one: Instance, pulse: Pulse) -> bool:
    """True if a pending instance has shown, in its round, that it may go on offer: cleaned, or booted, never used."""
    needed = Kind.CLEAN_OK if one.state is IDLE else Kind.OK
    return one.is_pending and pulse.signal is not None and pulse.signal.proves(needed, one.round)


async def send_tickets(ports: Ports, on_offer: Sequence[Instance], delay: float = 0.0) -> None:
    """One ticket each, to the queue of its class."""
    for name in dict.fromkeys(one.resource_class for one in on_offer):
        offers = [one for one in on_offer if one.resource_class == name]
        await ports.queue.send(name, [ticket_message(one) for one in offers], delay)


def ticket_message(one: Instance) -> Message:
    """The ticket of an instance on offer; it expires with the offer."""
    ticket = one.ticket()
    return Message(ticket.to_json(), expires=ticket.threshold)
