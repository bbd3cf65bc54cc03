"""Evidence: what records and the compute engine know about the machines of workers that fell silent.

Silence alone may be a failure of the receiving process. A machine that is known to have ended cannot beat again: its
worker needs no protection, and a job with side effects may go to another.
"""

from collections.abc import Iterable
from dataclasses import field

from bullpen.errors import Refused, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import LIVE, TERMINATED, Instance
from bullpen.ports import Ports, Sighting


@dataclass(frozen=True, slots=True)
class Evidence:
    instances: dict[str, Instance] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()  # of the instances: there is a record, and it cannot be read
    sightings: dict[str, Sighting] | None = None  # None: the compute engine did not answer

    def is_gone(self, instance_id: str) -> bool:
        """True only if it is certain that nothing runs there any more; what no list shows is not certain."""
        seen, record = (self.sightings or {}).get(instance_id), self.instances.get(instance_id)
        if seen is not None and not seen.alive:
            return True
        return record is not None and record.state is TERMINATED and record.owes is None

    def is_ending(self, instance_id: str) -> bool:
        """True if it is gone, or its record is marked for its end.

        Neither a record nor a machine: it ended so long ago that both are forgotten, for a record outlives its machine.
        """
        record = self.instances.get(instance_id)
        if record is not None:
            return record.state is TERMINATED or self.is_gone(instance_id)
        known = instance_id in self.unreadable
        forgotten = self.sightings is not None and instance_id not in self.sightings and not known
        return bool(instance_id) and (forgotten or self.is_gone(instance_id))

    def was_ended(self, instance_id: str) -> bool:
        """True if the pool itself has ended it: that its worker is silent is no news."""
        record = self.instances.get(instance_id)
        return self.is_ending(instance_id) and (record is None or record.state is TERMINATED)

    def live_record(self, instance_id: str) -> Instance | None:
        record = self.instances.get(instance_id)
        return record if record is not None and record.state in LIVE else None


async def gather(ports: Ports, instance_ids: Iterable[str]) -> Evidence:
    """Ask once about all of them. A compute engine that cannot answer is no evidence either way."""
    wanted = list(dict.fromkeys(id for id in instance_ids if id))
    if not wanted:
        return Evidence()
    records = await ports.records.instances(wanted)
    unread = [id for id in wanted if id not in records]
    unreadable = frozenset(await ports.records.known(unread)) if unread else frozenset()
    try:
        return Evidence(records, unreadable, {seen.id: seen for seen in await ports.compute.sightings()})
    except (Unavailable, Refused):
        return Evidence(records, unreadable)
