"""Audit: compares machines, records, tickets and registrations. Read-only; an empty answer means that they agree.

It is meant for a pool at rest: the work of a running command shows up as unfinished.
"""

from collections.abc import Iterator, Sequence

from bullpen.model import provision as provisions
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.set_member import set_of
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports, Registration


async def audit(ports: Ports) -> list[str]:
    """Everything that is lost, left over, owned twice or unfinished, a line each."""
    live = await every_live(ports)
    seen = await ports.compute.sightings()
    machines = {one.id for one in seen if one.alive}
    registrations = await ports.ci.registrations()
    return [
        *_machines(live, machines),
        *_registrations(live, registrations),
        *_unfinished(live),
        *await _owners(ports, live),
        *await _tickets(ports, live),
    ]


def _machines(live: Sequence[Instance], machines: set[str]) -> Iterator[str]:
    known = {one.id: one for one in live}
    for one in live:
        if one.state is not TERMINATED and one.id not in machines:
            yield f"{one.id} is {one.state}, but its machine is gone"
    for id in sorted(machines):
        if id not in known:
            yield f"{id} runs, but has no record"


def _registrations(live: Sequence[Instance], registrations: Sequence[Registration]) -> Iterator[str]:
    # A member of a scale set registers for one job at a time, and the CI may list it without its label.
    members = {one.id for one in live if set_of(one) is not None}
    serving = {one.id: one.run_id for one in live if one.state is RUNNING and one.id not in members}
    for one in registrations:
        if one.name not in members and serving.get(one.name) != one.label:
            yield f"{one.handle} is registered for {one.label}, but serves {serving.get(one.name) or 'no run'}"
    registered = {one.name for one in registrations}
    for id, run_id in serving.items():
        if id not in registered:
            yield f"{id} serves {run_id}, but is not registered"


def _unfinished(live: Sequence[Instance]) -> Iterator[str]:
    for one in live:
        if one.state is CLAIMED or (one.state is CREATED and one.run_id):
            yield f"{one.id} is still {one.state} for {one.run_id}"
        if one.state is IDLE and not one.attested:
            yield f"{one.id} is given back, but not on offer"
        if one.state is TERMINATED:
            yield f"the machine of {one.id} is still to be terminated"


async def _owners(ports: Ports, live: Sequence[Instance]) -> list[str]:
    lines = []
    running = [one for one in live if one.state is RUNNING]
    sets = await ports.records.scale_sets() if any(set_of(one) is not None for one in running) else {}
    for one in running:
        if (name := set_of(one)) is not None:
            if name not in sets or not sets[name].may_have_runners:
                lines.append(f"{one.id} runs for {one.run_id}, but there is no such scale set")
        else:
            owner = await ports.records.provision(one.provision_id)
            if owner is None or owner.state is not provisions.COMMITTED or one.id not in owner.members:
                lines.append(f"{one.id} runs for {one.run_id}, but no committed provision has it as a member")
    return lines


async def _tickets(ports: Ports, live: Sequence[Instance]) -> list[str]:
    lines = []
    for name in dict.fromkeys(one.resource_class for one in live):
        offers = sum(one.is_claimable and one.resource_class == name for one in live)
        tickets = await ports.queue.count(name)
        if tickets < offers:
            lines.append(f"class {name}: instances on offer: {offers}, tickets: {tickets}")
    return lines
