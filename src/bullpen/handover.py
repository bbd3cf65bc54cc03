"""Handing instances over: to the run that committed them, back to the pool, or to their end.

Nothing here trusts that it is alone. Two may look at one record; every write is conditional on the record as seen,
every outside call is idempotent, and whoever comes second finds a Conflict and leaves it at that.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from bullpen import busy
from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.provision import Provision
from bullpen.model.signal import Kind, Pulse
from bullpen.model.transition import Change
from bullpen.ports import Ports
from bullpen.watch import Watcher


class Fate(StrEnum):
    """What became of an instance that was given up."""

    TERMINATED = "terminated"  # its end is certain
    TERMINATING = "terminating"  # its end is written down and owed
    OFFERED = "offered"  # clean and on offer again
    CLEANING = "cleaning"  # given back; its attestation is awaited
    BUSY = "busy"  # its CI gave it a job: it goes back once that has ended
    NOT_OURS = "not ours"  # belongs to somebody else meanwhile: left alone


def later(at: datetime, seconds: float) -> datetime:
    return at + timedelta(seconds=seconds)


async def carry_out(
    ports: Ports, settings: Settings, decided: Provision, held: Iterable[Instance], *, by: str, hurry: bool = False
) -> tuple[dict[str, Instance | None], list[str]]:
    """Do what a decided provision says to every instance held for it; returns the records as they stand, by id, and
    those that were left alone because they are at work.

    Members of a committed one run, and are given back once it is over; everything else that was claimed is given back,
    and what was created is ended.
    """
    concerned = [one for one in held if _concerns(decided, one)]
    leaving = [one for one in concerned if not _is_to_run(decided, one)]
    at_work = await busy.at_work(ports, settings, [one.id for one in leaving], hurry=hurry)
    await busy.spare(ports, settings, leaving, at_work, by=by, lasts=decided.max_runtime)
    now = ports.clock.now()
    changes = [_consequence(ports, settings, decided, one, now, by) for one in concerned if one.id not in at_work]
    landed = await ports.records.apply_each(changes)
    standing = {c.before.id: r.found if isinstance(r, Conflict) else r for c, r in zip(changes, landed, strict=True)}
    return standing, list(at_work)


def _concerns(decided: Provision, held: Instance) -> bool:
    if held.provision_id != decided.id or held.state not in (CLAIMED, CREATED, RUNNING):
        return False
    return held.state is not RUNNING or decided.is_over


def _is_to_run(decided: Provision, held: Instance) -> bool:
    return decided.state is provisions.COMMITTED and held.id in decided.members and not decided.is_over


def _consequence(
    ports: Ports, settings: Settings, decided: Provision, held: Instance, now: datetime, by: str
) -> Change[Instance]:
    if _is_to_run(decided, held):
        until = later(now, decided.max_runtime)
        return instances.commit(
            held, instances.Committed(at=now, by=by, round=held.round, provision=decided, until=until)
        )
    why = decided.reason or ("its run was released" if decided.is_over else "surplus")
    return end(held, now, by, why) if held.state is CREATED else give_back(ports, settings, held, now, by, why)


def settling(settings: Settings, decided: Provision, now: datetime, by: str) -> Change[Provision]:
    """The change that says that nothing is owed any more. The record outlives the members that run."""
    step = provisions.settle_committed if decided.state is provisions.COMMITTED else provisions.settle_aborted
    runs_on = decided.state is provisions.COMMITTED and not decided.is_over
    lasts = settings.remembers + (decided.max_runtime if runs_on else 0.0)
    return step(decided, provisions.Settled(at=now, by=by, purge_at=later(now, lasts)))


def postponing(decided: Provision, now: datetime, by: str) -> Change[Provision]:
    """The change that leaves a debt for later: somebody who should be given back is at work."""
    return provisions.postpone(decided, provisions.Postponed(at=now, by=by, due=later(now, busy.LOOK_AGAIN)))


def give_back(ports: Ports, settings: Settings, held: Instance, now: datetime, by: str, why: str) -> Change[Instance]:
    """The change that gives a claimed or running instance back to be cleaned."""
    fresh = ports.chance.token()
    until = later(now, settings.timings.cleaning)
    due = later(now, settings.timings.takeover)
    if held.state is RUNNING:
        return instances.release(
            held,
            instances.Released(at=now, by=by, why=why, run_id=held.run_id, round=fresh, until=until, offer_due=due),
        )
    return instances.roll_back(
        held,
        instances.RolledBack(at=now, by=by, why=why, old_round=held.round, round=fresh, until=until, offer_due=due),
    )


def end(held: Instance, now: datetime, by: str, why: str) -> Change[Instance]:
    """The change that marks an instance for its end, as seen: it fails if the owner changed meanwhile."""
    return instances.expire(held, instances.Expired(at=now, by=by, why=why, round=held.round))


async def terminate(ports: Ports, settings: Settings, marked: Sequence[Instance], *, by: str) -> list[str]:
    """End the machines of terminated records and write that it is done; returns the ids whose end is certain."""
    owing = [one for one in marked if one.state is TERMINATED and one.owes is not None]
    if not owing:
        return []
    certain = await ports.compute.terminate([one.id for one in owing])
    now = ports.clock.now()
    ended = instances.Ended(at=now, by=by, why="its end is confirmed", purge_at=later(now, settings.remembers))
    await ports.records.apply_each([instances.done(one, ended) for one in owing if one.id in certain])
    return certain


async def expire_and_terminate(
    ports: Ports, settings: Settings, condemned: Sequence[Instance], why: str, *, by: str
) -> dict[str, Fate]:
    """Mark first, terminate after; what belongs to somebody else meanwhile is left alone."""
    return await _end_together(ports, settings, [(one, why) for one in condemned], by=by)


async def _end_together(
    ports: Ports, settings: Settings, condemned: Sequence[tuple[Instance, str]], *, by: str
) -> dict[str, Fate]:
    """Each for its own reason."""
    now = ports.clock.now()
    landed = await ports.records.apply_each([end(one, now, by, why) for one, why in condemned])
    marked = [one for one in landed if isinstance(one, Instance)]
    certain = await terminate(ports, settings, marked, by=by)
    fates = {one.id: Fate.NOT_OURS for one, _ in condemned}
    for one in marked:
        fates[one.id] = Fate.TERMINATED if one.id in certain else Fate.TERMINATING
    return fates


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

    No attestation in time ends it, and so does an agent that falls silent. One that got a job before it knew that it
    was given back is neither ended nor waited for: its debt stays. Returns when all are decided, or have reached
    `enough`; after `stop`, the rest is left as debts.
    """
    fates = {one.id: Fate.CLEANING for one in cleaning}
    waiting = {one.id: one for one in cleaning if one.state is IDLE and not one.attested}
    loop = asyncio.get_running_loop()
    give_up = loop.time() + (settings.timings.cleaning if patience is None else patience)
    tick = settings.timings.tick_first
    watcher = Watcher(ports.signals, ports.clock, settings.timings)
    while waiting:
        pulses = await watcher.look(list(waiting))
        # A signal of this round was written after it was given back: a sign of life, whatever its clock says.
        fates |= await offer_living(ports, settings, list(waiting.values()), pulses, by=by, living=waiting)
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
            fates |= await _end_together(ports, settings, hopeless, by=by)
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


def _hopeless(settings: Settings, one: Instance, pulse: Pulse, *, late: bool, silent: bool) -> str:
    """Why an attestation is no longer awaited; empty if it is."""
    if pulse.signal is not None and pulse.signal.fails(one.round) and not busy.is_excused(settings, one, pulse):
        return f"{pulse.signal.kind}: {pulse.signal.text}"
    if late:
        return "did not attest in time"
    return "its agent is silent" if silent else ""


async def offer_proven(
    ports: Ports, settings: Settings, pending: Sequence[Instance], pulses: dict[str, Pulse], *, by: str
) -> dict[str, Fate]:
    """Put on offer those that are proven and alive; one that looks silent is watched for a heartbeat first.

    Who stays silent is left to its threshold, and ended once that has passed.
    """
    now, within = ports.clock.now(), settings.timings.alive
    proven = [one for one in pending if is_proven(one, pulses[one.id])]
    quiet = [one for one in proven if not pulses[one.id].is_recent(now, within)]
    moving: set[str] = set()
    if quiet:
        watcher = Watcher(ports.signals, ports.clock, settings.timings)
        moving = await watcher.signs_of_life([one.id for one in quiet])
    fates = await offer_living(ports, settings, proven, pulses, by=by, living=moving)
    if overdue := [one for one in quiet if one.id not in moving and one.threshold <= now]:
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
    found = landed.found
    return Fate.OFFERED if isinstance(found, Instance) and found.state in (IDLE, CLAIMED, RUNNING) else Fate.NOT_OURS


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
        if signal is None or not is_proven(one, pulse):
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
        last = max(one.threshold for one in offers)
        await ports.queue.send(name, [one.ticket().to_json() for one in offers], delay, expires=last)
