"""Offering: instances that were given back, or booted ahead of any run, go on offer once they are proven.

One that is drained has to be proven, too, as only then nothing of its run is left to do there. It is ended instead.

Several processes may offer the same instance. The one that comes second finds that it is on offer, or that another run
has it by now, and leaves it alone.
"""

import asyncio
from collections.abc import Collection, Sequence

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, Instance, InstanceFate
from bullpen.model.signal import Kind, Pulse
from bullpen.model.times import later
from bullpen.model.transition import Change
from bullpen.pool import busy
from bullpen.pool.lifecycle import expire_and_terminate
from bullpen.pool.watcher import Watcher
from bullpen.ports import Message, Ports

DRAINED_AND_FREE = "drained, and free now"


async def await_and_offer(
    ports: Ports,
    settings: Settings,
    cleaning: Sequence[Instance],
    *,
    by: str,
    enough: Kind = Kind.CLEAN_OK,
    patience: float | None = None,
    stop: asyncio.Event | None = None,
) -> dict[str, InstanceFate]:
    """Wait until each instance, given back just now, has attested, and put it on offer.

    An instance is ended if it does not attest in time, if its agent falls silent, or if its machine is about to be
    interrupted. One that got a job before it knew that it was given back is neither ended nor awaited: its debt stays.
    Returns when all are decided, or have reached `enough`; after `stop`, the rest is left as debts.
    """
    fates = {one.id: InstanceFate.CLEANING for one in cleaning}
    waiting = {one.id: one for one in cleaning if one.state is IDLE and not one.attested}
    loop = asyncio.get_running_loop()
    give_up = loop.time() + (settings.timings.cleaning if patience is None else patience)
    check_at = loop.time() + settings.timings.takeover
    tick = settings.timings.tick_first
    watcher = Watcher(ports.signals, ports.clock, settings.timings)
    while waiting:
        pulses = await watcher.read(list(waiting))
        # A signal of this round was written after the instance was given back: a sign of life, whatever its clock says.
        fates |= await offer_living(ports, settings, list(waiting.values()), pulses, by=by, living=waiting)
        if loop.time() >= check_at:
            fates |= await _moved_on(ports, [one for one in waiting.values() if fates[one.id] is InstanceFate.CLEANING])
            check_at = loop.time() + settings.timings.takeover
        named = busy.activities(settings, pulses)
        at_work = {id: job for id, job in named.items() if fates[id] is InstanceFate.CLEANING and watcher.lives(id)}
        await busy.spare(ports, settings, waiting.values(), at_work, by=by)
        fates |= dict.fromkeys(at_work, InstanceFate.BUSY)
        late = loop.time() >= give_up
        hopeless = {
            id: why
            for id, one in waiting.items()
            if fates[id] is InstanceFate.CLEANING
            and (why := _hopeless(settings, one, pulses[id], late=late, silent=watcher.is_silent(id)))
        }
        if hopeless:
            fates |= await expire_and_terminate(ports, settings, [waiting[id] for id in hopeless], hopeless, by=by)
        waiting = {
            one.id: one
            for one in waiting.values()
            if fates[one.id] is InstanceFate.CLEANING
            and not ((s := pulses[one.id].signal) is not None and s.proves(enough, one.round))
        }
        if not waiting or (stop is not None and stop.is_set()):
            break
        await ports.signals.wait(tick)
        tick = min(tick * 1.5, settings.timings.tick_longest)
    return fates


async def _moved_on(ports: Ports, waiting: Sequence[Instance]) -> dict[str, InstanceFate]:
    """Instances that another process, which may pay this debt by now, has put on offer. The next owner draws another
    round, and the agent sends no more signals of this one."""
    found = await ports.records.instances([one.id for one in waiting]) if waiting else {}
    unmoved = {one.id for one in waiting if (now := found.get(one.id)) and now.is_pending and now.round == one.round}
    return {one.id: _fate_now(found.get(one.id)) for one in waiting if one.id not in unmoved}


def _hopeless(settings: Settings, one: Instance, pulse: Pulse, *, late: bool, silent: bool) -> str:
    """Why an attestation is no longer awaited; empty if it still is."""
    if pulse.signal is not None and pulse.signal.fails(one.round) and not busy.is_excused(settings, one, pulse):
        return pulse.signal.failure
    if pulse.departure:
        return pulse.departure
    if late:
        return "did not attest in time"
    return "its agent is silent" if silent else ""


async def offer_proven(
    ports: Ports, settings: Settings, pending: Sequence[Instance], pulses: dict[str, Pulse], *, by: str
) -> dict[str, InstanceFate]:
    """Put on offer the instances that are proven and alive. One that seems silent is watched for a heartbeat first.

    One that stays silent is ended once its threshold has passed. One whose machine is about to be interrupted is ended
    at once.
    """
    now, within = ports.clock.now(), settings.timings.alive
    proven = [one for one in pending if is_proven(one, pulses[one.id])]
    quiet = [one for one in proven if not pulses[one.id].is_recent(now, within)]
    moving: set[str] = set()
    if quiet:
        watcher = Watcher(ports.signals, ports.clock, settings.timings)
        moving = await watcher.signs_of_life([one.id for one in quiet])
    fates = await offer_living(ports, settings, proven, pulses, by=by, living=moving)
    if leaving := [one for one in proven if pulses[one.id].departure]:
        reasons = {one.id: pulses[one.id].departure for one in leaving}
        fates |= await expire_and_terminate(ports, settings, leaving, reasons, by=by)
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
) -> dict[str, InstanceFate]:
    """Land the offers of those that are proven and alive, and send their tickets; end those that are drained."""
    landed = await land_offers(ports, settings, pending, pulses, by=by, living=living)
    await send_tickets(ports, [one for one in landed.values() if isinstance(one, Instance) and one.is_claimable])
    fates = {id: _fate_of_offer(one) for id, one in landed.items()}
    drained = [one for one in pending if one.is_drained and is_proven(one, pulses[one.id])]
    drained += [one.found for one in landed.values() if isinstance(one, Conflict) and _is_to_end(one.found, pulses)]
    return fates | (await expire_and_terminate(ports, settings, drained, DRAINED_AND_FREE, by=by) if drained else {})


def _is_to_end(found: Instance | None, pulses: dict[str, Pulse]) -> bool:
    """Whether it was drained between the read and the offer."""
    return found is not None and found.is_drained and is_proven(found, pulses[found.id])


def _fate_of_offer(landed: Instance | Conflict) -> InstanceFate:
    """One that another process has put on offer first counts as offered, also if a run has claimed it by now."""
    if isinstance(landed, Instance):
        return InstanceFate.OFFERED
    return _fate_now(landed.found if isinstance(landed.found, Instance) else None)


def _fate_now(found: Instance | None) -> InstanceFate:
    """What became of an instance that was given back, and that another process has moved on."""
    if found is None or found.state not in (IDLE, CLAIMED, RUNNING):
        return InstanceFate.NOT_OURS
    # One that is still being cleaned was drained meanwhile: the process that pays its debt ends it.
    return InstanceFate.CLEANING if found.is_pending else InstanceFate.OFFERED


async def land_offers(
    ports: Ports,
    settings: Settings,
    pending: Sequence[Instance],
    pulses: dict[str, Pulse],
    *,
    by: str,
    living: Collection[str] = (),
) -> dict[str, Instance | Conflict]:
    """Offer or adopt the instances that are proven and alive; returns the records on offer by id, or the Conflict.

    The caller has seen a sign of life of `living`. Of all others the heartbeat must be recent: an instance that booted
    or cleaned long ago may be dead by now.
    """
    now = ports.clock.now()
    until = later(now, settings.timings.idle)
    changes: list[Change[Instance]] = []
    for one in pending:
        pulse = pulses[one.id]
        signal = pulse.signal
        if signal is None or not is_proven(one, pulse) or pulse.departure or one.is_drained:
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
    """True if a pending instance has proven, in its round, that it may go on offer: cleaned, or booted and never
    used."""
    needed = Kind.CLEAN_OK if one.state is IDLE else Kind.OK
    return one.is_pending and pulse.signal is not None and pulse.signal.proves(needed, one.round)


async def send_tickets(ports: Ports, on_offer: Sequence[Instance], delay: float = 0.0) -> None:
    """Send one ticket for each, to the queue of its class."""
    for name in dict.fromkeys(one.resource_class for one in on_offer):
        offers = [one for one in on_offer if one.resource_class == name]
        await ports.queue.send(name, [ticket_message(one) for one in offers], delay)


def ticket_message(one: Instance) -> Message:
    """The ticket of an instance on offer; it expires with the offer."""
    ticket = one.ticket()
    return Message(ticket.to_json(), expires=ticket.threshold)
