"""Reconcile: bring machines, records, registrations and tickets into agreement.

A lagging list can make something look wrong that is not. So it must be observed twice, `timings.orphan` apart.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from bullpen.config import Settings
from bullpen.errors import Refused
from bullpen.liveness.lost_instances import is_member
from bullpen.model import provision as provisions
from bullpen.model.instance import TERMINATED, Instance
from bullpen.ports import Ports, Sighting
from bullpen.refresh import drift, lost_members, registrations, tickets
from bullpen.refresh.action import Action, Plan, alarm, ending
from bullpen.refresh.sightings import seen_twice


async def plans(ports: Ports, settings: Settings, live: Sequence[Instance], *, dry_run: bool) -> AsyncIterator[Plan]:
    sightings = {seen.id: seen for seen in await ports.compute.sightings()}
    for seen in sightings.values():
        if seen.alive and seen.stays:  # its end was requested above: an operator has to act
            yield alarm(Action("cannot end", seen.id, seen.stays, is_done=False))
    async for plan in _unwanted(ports, settings, live):
        yield plan
    async for plan in _gone(ports, settings, live, sightings, dry_run):
        yield plan
    async for plan in _orphans(ports, settings, live, sightings, dry_run):
        yield plan
    async for plan in _unburied(ports, live, sightings, dry_run):
        yield plan
    async for plan in registrations.plans(ports, settings, live, dry_run=dry_run):
        yield plan
    async for plan in drift.plans(ports, settings, live, sightings):
        yield plan
    async for plan in tickets.plans(ports, settings, live, dry_run=dry_run):
        yield plan


async def _unwanted(ports: Ports, settings: Settings, live: Sequence[Instance]) -> AsyncIterator[Plan]:
    """Idle instances of a class that is no longer configured, or of an older image."""
    for one in live:
        if not one.is_claimable:
            continue
        own_class = settings.classes.get(one.resource_class)
        if own_class is None:
            yield ending(ports, settings, [one], f"class {one.resource_class} is no longer configured")
        elif one.image_generation < own_class.image_generation:
            yield ending(ports, settings, [one], f"image generation {one.image_generation} is outdated")


async def _gone(
    ports: Ports, settings: Settings, live: Sequence[Instance], sightings: dict[str, Sighting], dry_run: bool
) -> AsyncIterator[Plan]:
    """Records whose machine has ended, or is in no list."""
    standing = [one for one in live if one.state is not TERMINATED]
    missing = [one.id for one in standing if one.id not in sightings]
    confirmed = await seen_twice(ports, settings, "record without machine", missing, dry_run)
    gone = [one for one in standing if one.id in confirmed or (one.id in sightings and not sightings[one.id].alive)]
    pulses = await ports.signals.read([one.id for one in gone]) if gone else {}
    for one in gone:
        signal = pulses[one.id].signal
        failure = f": {signal.words}" if signal is not None and signal.fails(one.round) and signal.words else ""
        why = f"its machine is gone{failure}"
        if is_member(one):
            yield lost_members.ending(ports, settings, [one], {one.id: why}, machine_is_gone=True)
        else:
            yield ending(ports, settings, [one], why)


async def _orphans(
    ports: Ports, settings: Settings, live: Sequence[Instance], sightings: dict[str, Sighting], dry_run: bool
) -> AsyncIterator[Plan]:
    """Machines with the tag of this pool and no record, unless their provision is open: it may be about to register
    them.

    A record that is in no list may still exist: an index lags, and an unreadable record is in no list. So each is read
    by its key before its machine is ended.
    """
    known = {one.id for one in live}
    # An ended machine needs no action, and the engine may list it for long.
    strangers = [seen for id, seen in sightings.items() if id not in known and seen.alive]
    askers = {id: await _is_open(ports, id) for id in dict.fromkeys(seen.provision_id for seen in strangers)}
    unknown = [seen for seen in strangers if not askers[seen.provision_id]]
    confirmed = await seen_twice(ports, settings, "machine without record", [seen.id for seen in unknown], dry_run)
    spared = await _spared(ports, confirmed)
    if spared:
        # Until an operator repairs the record, or the index has caught up.
        yield alarm(*(Action("spare", id, "it has a record that no list shows") for id in spared))
    if ended := [id for id in confirmed if id not in spared]:
        yield Plan(
            tuple(Action("terminate", id, "a machine with the tag of this pool, without a record") for id in ended),
            partial(ports.compute.terminate, ended),
        )


async def _spared(ports: Ports, ids: Sequence[str]) -> list[str]:
    """Machines that have a record, unless it says that the machine has ended."""
    if not ids:
        return []
    known, found = await ports.records.known(ids), await ports.records.instances(ids)
    return [id for id in ids if id in known and not (id in found and found[id].state is TERMINATED)]


async def _unburied(
    ports: Ports, live: Sequence[Instance], sightings: dict[str, Sighting], dry_run: bool
) -> AsyncIterator[Plan]:
    """Ended machines that never had a record: their launcher died before it registered them.

    Once each: an engine may list ended machines for long.
    """
    known = {one.id for one in live}
    dead = [id for id, seen in sightings.items() if not seen.alive and id not in known]
    now = ports.clock.now()
    since = await ports.observations.observe("dead machine without record", dead, now, remember=not dry_run)
    fresh = [id for id in dead if since[id] == now]
    # Registered since the list was read, or ended normally: then it has a record.
    recorded = await ports.records.known(fresh)
    if buried := [id for id in fresh if id not in recorded]:
        yield Plan(
            tuple(Action("bury", id, "its machine has ended, and has no record") for id in buried),
            partial(ports.compute.terminate, buried),
        )


async def _is_open(ports: Ports, provision_id: str) -> bool:
    """True also if the record is unreadable: then it may be open."""
    try:
        provision = await ports.records.provision(provision_id) if provision_id else None
    except Refused:
        return True
    return provision is not None and provision.state is provisions.OPEN
