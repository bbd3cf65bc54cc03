"""The truth about machines in a simulated world: what each write of a record, and the yard itself, said at its moment.

It is counted in another way than the bookkeeper counts: from the records as they are written, without any story.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.times import MICROSECOND
from bullpen.model.usage import Owner, UsageRow
from bullpen.sim.world import World

HOUR = timedelta(hours=1)
Owned = tuple[Owner, str]  # the owner, and the run


@dataclass
class MachineTime:
    """One machine: since when it is whose, until it ended."""

    began: datetime
    changes: list[tuple[datetime, Owned]]
    ended: datetime | None = None

    def owned(self, until: datetime) -> Counter[tuple[datetime, Owned]]:
        """Microseconds by hour and owner."""
        found: Counter[tuple[datetime, Owned]] = Counter()
        ends = [at for at, _ in self.changes[1:]] + [min(self.ended or until, until)]
        for (since, owner), end in zip(self.changes, ends, strict=True):
            while since < min(end, until):
                hour = since.replace(minute=0, second=0, microsecond=0)
                part = min(end, until, hour + HOUR)
                found[hour, owner] += (part - since) // MICROSECOND
                since = part
        return found


@dataclass
class TimeWitness:
    """Watches every write of an instance, and every launch and end of a machine."""

    world: World
    machines: dict[str, MachineTime] = field(default_factory=dict)
    launched: dict[str, datetime] = field(default_factory=dict)
    gone: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables, yard = self.world.memory.tables, self.world.memory.yard
        write, on_launch, on_end = tables._write, yard.on_launch, yard.on_end

        def watched_write(change: Any, record: Any) -> None:
            if isinstance(record, Instance) and tables.instances.get(record.id) is not record and change.line:
                self._wrote(record, change.line.at)
            write(change, record)

        def watched_launch(machine: Any, plan: Any) -> None:
            self.launched[machine.id] = self.world.clock.now()
            on_launch(machine, plan)

        def watched_end(machine_id: str) -> None:
            self.gone[machine_id] = self.world.clock.now()
            on_end(machine_id)

        tables._write = watched_write  # type: ignore[method-assign]
        yard.on_launch, yard.on_end = watched_launch, watched_end

    def _wrote(self, record: Instance, at: datetime) -> None:
        known = self.machines.get(record.id)
        if known is None:
            self.machines[record.id] = MachineTime(at, [(at, (Owner.BOOT, record.run_id))])
            return
        at = max(at, known.changes[-1][0])
        if record.purge_at is not None:
            known.ended = at
            return
        _, run_id = known.changes[-1][1]
        owner = {
            CREATED: (Owner.BOOT, record.run_id),
            CLAIMED: (Owner.RUN, record.run_id),
            RUNNING: (Owner.RUN, record.run_id),
            IDLE: (Owner.IDLE, "") if record.attested else (Owner.CLEANING, run_id),
            TERMINATED: (Owner.CLEANING, run_id),
        }[record.state]
        known.changes.append((at, owner))

    def owned(self, until: datetime) -> Counter[tuple[datetime, Owned]]:
        """What all machines with a record spent, by hour and owner, in microseconds."""
        return sum((one.owned(until) for one in self.machines.values()), Counter())

    def total(self, until: datetime) -> int:
        """From the record of each machine to its certain end, in microseconds."""
        ends = [(one.began, min(one.ended or until, until)) for one in self.machines.values()]
        return sum(max((end - began) // MICROSECOND, 0) for began, end in ends)

    def alive(self) -> int:
        """What the yard says: from each launch to its end, in microseconds, of machines that had a record."""
        spans = [(at, self.gone[id]) for id, at in self.launched.items() if id in self.machines and id in self.gone]
        return sum((end - began) // MICROSECOND for began, end in spans)

    def around(self) -> tuple[int, int]:
        """The time between the launch and the record, and between the end of the machine and its confirmation."""
        known = [id for id in self.launched if id in self.machines and id in self.gone]
        before = sum((self.machines[id].began - self.launched[id]) // MICROSECOND for id in known)
        ended = {id: self.machines[id].ended for id in known}
        after = sum((end - self.gone[id]) // MICROSECOND for id, end in ended.items() if end is not None)
        return before, after


def booked(rows: Mapping[Any, UsageRow]) -> Counter[tuple[datetime, Owned]]:
    """What stands in the books of a simulated store."""
    found: Counter[tuple[datetime, Owned]] = Counter()
    for row in rows.values():
        found[row.hour, (row.owner, row.run_id)] += row.microseconds
    return found
