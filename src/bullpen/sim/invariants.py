"""What must hold of a world, at every moment and once it has come to rest."""

from collections.abc import Iterator

from bullpen.engines.memory import Memory
from bullpen.model import provision as provisions
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.set_member import set_of
from bullpen.model.ticket import Ticket, parse_ticket


def always(memory: Memory) -> list[str]:
    """Holds between any two callbacks, whichever process was killed meanwhile."""
    return [*_owners(memory), *_machines_have_records(memory)]


def at_rest(memory: Memory, want: dict[str, int]) -> list[str]:
    """Holds once every deadline has passed and refresh has run: nothing is lost, nothing is left, all or nothing.

    `want` says how many instances each run asked for.
    """
    return [*always(memory), *_nothing_in_between(memory), *_registrations(memory), *_all_or_nothing(memory, want)]


def _owners(memory: Memory) -> Iterator[str]:
    for one in memory.tables.instances.values():
        if one.state is RUNNING:
            yield from _owner_of_set(memory, one) if set_of(one) is not None else _owner_of_run(memory, one)
        if one.state is not TERMINATED and one.id not in memory.yard.sightings:
            yield f"{one.id} is {one.state}, but there never was such a machine"


def _owner_of_run(memory: Memory, one: Instance) -> Iterator[str]:
    owner = memory.tables.provisions.get(one.provision_id)
    if not (owner and owner.state is provisions.COMMITTED and one.id in owner.members):
        yield f"{one.id} runs for {one.run_id}, but no committed provision has it as a member"
    if owner and owner.run_id != one.run_id:
        yield f"{one.id} runs for {one.run_id}, but was committed to {owner.run_id}"


def _owner_of_set(memory: Memory, one: Instance) -> Iterator[str]:
    owner = memory.tables.scale_sets.get(one.run_id)
    if owner is None or not owner.may_have_runners:
        yield f"{one.id} runs for {one.run_id}, but that is {owner.state if owner else 'absent'}"
    if one.provision_id:
        yield f"{one.id} runs for {one.run_id}, and for {one.provision_id} as well"


def _machines_have_records(memory: Memory) -> Iterator[str]:
    for id in memory.yard.machines:
        record = memory.tables.instances.get(id)
        if record is not None and record.state is TERMINATED and record.owes is None:
            yield f"{id} runs, but its record says that its end is done"


def _nothing_in_between(memory: Memory) -> Iterator[str]:
    alive = memory.yard.machines
    for one in memory.tables.instances.values():
        if one.state in (CREATED, CLAIMED) and one.run_id:
            yield f"{one.id} is still {one.state} for {one.run_id}"
        if one.state is IDLE and not one.attested:
            yield f"{one.id} is idle and neither on offer nor ended"
        if one.state is IDLE and one.attested and not _can_be_found(memory, one):
            yield f"{one.id} is on offer without a ticket"
        if one.state is TERMINATED and one.owes is not None:
            yield f"the machine of {one.id} is still to be terminated"
        if one.state is not TERMINATED and one.id not in alive:
            yield f"{one.id} is {one.state}, but its machine is gone"
    for id in alive:
        if id not in memory.tables.instances:
            yield f"{id} runs and has no record"
    for provision in memory.tables.provisions.values():
        if provision.state is provisions.OPEN or provision.owes is not None:
            yield f"{provision.id} is {provision.state} and not settled"


def _can_be_found(memory: Memory, one: Instance) -> bool:
    """By its ticket; without it only where stale tickets hide that it is missing, until a process draws them."""
    queue = memory.queues.get(one.resource_class)
    bodies = queue.bodies() if queue else []
    on_offer = sum(i.is_claimable and i.resource_class == one.resource_class for i in memory.tables.instances.values())
    tickets = (parse_ticket(body) for body in bodies)
    has_ticket = any(isinstance(t, Ticket) and (t.instance_id, t.version) == (one.id, one.version) for t in tickets)
    return has_ticket or len(bodies) >= on_offer


def _registrations(memory: Memory) -> Iterator[str]:
    for name, registration in memory.registrations.items():
        record = memory.tables.instances.get(name)
        if record is None or record.state is not RUNNING:
            yield f"{name} is registered for {registration.label}, but is {record.state if record else 'unknown'}"
        elif record.run_id != registration.label:
            yield f"{name} serves {record.run_id}, but is registered for {registration.label}"


def _all_or_nothing(memory: Memory, want: dict[str, int]) -> Iterator[str]:
    for run_id, count in want.items():
        running = sum(one.state is RUNNING and one.run_id == run_id for one in memory.tables.instances.values())
        if running not in (0, count):
            yield f"{run_id} has {running} of {count} instances"
