"""The truth in memory: records, their stories, and the one place where a change lands."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bullpen.engines.memory.bell import Bell
from bullpen.engines.memory.index import Index, Replica
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model.instance import Instance
from bullpen.model.provision import OPEN, Provision
from bullpen.model.transition import STORY_LENGTH, Change, StoryLine
from bullpen.ports import TOGETHER_LIMIT

ABSENT = "absent"


class Tables:
    """Shared by all simulated processes. Nothing here awaits, so every method is atomic."""

    def __init__(self, control: Bell, lag: float = 0.0) -> None:
        self.instances: dict[str, Instance] = {}
        self.provisions: dict[str, Provision] = {}
        self.stories: dict[str, deque[StoryLine]] = {}
        self._control = control
        self._bells: dict[str, Bell] = {}

        self.of_run = Index[Instance](lambda i: (i.run_id, i.id) if i.run_id and i.state in instances.LIVE else None)
        self.claimable = Index[Instance](lambda i: (i.resource_class, i.id) if i.is_claimable else None)
        self.pending = Index[Instance](lambda i: (i.resource_class, i.id) if i.is_pending else None)
        self.live = Index[Instance](lambda i: ("", i.id) if i.due_at else None)
        self.due = Index[Instance](lambda i: ("", i.due_at) if i.due_at else None)
        self.owing = Index[Instance](lambda i: ("", i.owes.due_at) if i.owes else None)
        self.purgeable = Index[Instance](lambda i: ("", i.purge_at) if i.purge_at else None)
        self.instance_indexes = Replica(
            lag, self.of_run, self.claimable, self.pending, self.live, self.due, self.owing, self.purgeable
        )

        self.provisions_of_run = Index[Provision](lambda p: (p.run_id, p.id))
        self.provisions_open = Index[Provision](lambda p: (p.needs.resource_class, p.id) if p.state is OPEN else None)
        self.provisions_due = Index[Provision](lambda p: ("", p.due_at) if p.due_at else None)
        self.provisions_purgeable = Index[Provision](lambda p: ("", p.purge_at) if p.purge_at else None)
        self.provision_indexes = Replica(
            lag, self.provisions_of_run, self.provisions_open, self.provisions_due, self.provisions_purgeable
        )

    def bell(self, instance_id: str) -> Bell:
        """Rung when the record of this instance changes: what its agent listens to."""
        return self._bells.setdefault(instance_id, Bell())

    def land(self, changes: Sequence[Change[Any]]) -> list[Any]:
        """All of them or, with a Conflict, none."""
        if len(changes) > TOGETHER_LIMIT:
            raise ValueError(f"{len(changes)} changes together, at most {TOGETHER_LIMIT}")
        if len({change.before.id for change in changes}) < len(changes):
            raise ValueError("two changes of one record cannot land together")
        landing = [self._landing(change) for change in changes]
        for change, record in zip(changes, landing, strict=True):
            self._write(change, record)
        return landing

    def _landing(self, change: Change[Any]) -> Any:
        """The record as it will be stored; the stored one itself if this very change has landed before."""
        stored = self._table(change.before).get(change.before.id)
        if _has_landed(change, stored):
            return stored
        before = change.before
        if stored is None:
            if before.state != ABSENT:
                raise Conflict(f"{before.id}: {change.step} of a record that is absent")
            return change.after
        if before.state == ABSENT or (stored.version, stored.state) != (before.version, before.state):
            raise Conflict(
                f"{before.id}: {change.step} saw {before.state} (version {before.version}),"
                f" but it is {stored.state} (version {stored.version})",
                found=stored,
            )
        for guard in change.guards:
            if not guard.holds(stored):
                raise Conflict(f"{before.id}: {change.step} needs {guard}", found=stored)
        # Only the difference: `before` may come from a ticket and know less than what is stored.
        landing = replace(stored, **change.difference())
        if isinstance(stored, Instance):
            _assert_cleaned_before_claimed(stored, landing)
        return landing

    def _write(self, change: Change[Any], record: Any) -> None:
        table = self._table(record)
        if table.get(record.id) is record:
            return  # landed before
        if isinstance(record, Instance):
            _assert_consistent(record)
            self.instance_indexes.follow(record.id, record)
        else:
            self.provision_indexes.follow(record.id, record)
        table[record.id] = record
        if change.line is not None:
            self.stories.setdefault(record.id, deque(maxlen=STORY_LENGTH)).append(change.line)
        self._wake(record)

    def remove(self, record: Instance | Provision) -> None:
        del self._table(record)[record.id]
        self.stories.pop(record.id, None)
        if isinstance(record, Instance):
            self.bell(record.id).ring()
            del self._bells[record.id]
            self.instance_indexes.follow(record.id, None)
        else:
            self.provision_indexes.follow(record.id, None)

    def _wake(self, record: Instance | Provision) -> None:
        """Its agent; and the control plane if somebody may wait for an offer or a decision."""
        if record.id in self._bells:
            self._bells[record.id].ring()
        if record.is_claimable if isinstance(record, Instance) else record.state is not OPEN:
            self._control.ring()

    def _table(self, record: Instance | Provision) -> dict[str, Any]:
        return self.instances if isinstance(record, Instance) else self.provisions


def _has_landed(change: Change[Any], stored: Any) -> bool:
    after = change.after
    return change.draws_round and stored is not None and (stored.version, stored.round) == (after.version, after.round)


def _assert_consistent(record: Instance) -> None:
    """What the schema of the SQL engine refuses. A step that gets here is a fault of the program, not of the world."""
    idle = record.state is instances.IDLE
    assert not record.attested or (idle and not record.run_id), f"{record} is attested, but not idle and free"
    assert not idle or not record.run_id, f"{record} is idle and has a run"
    assert record.state is not instances.CLAIMED or record.run_id, f"{record} is claimed by nobody"
    assert not idle or record.attested or (record.owes and record.owes.kind is instances.Owed.OFFER), (
        f"{record} is neither on offer nor on its way there"
    )


def _assert_cleaned_before_claimed(stored: Instance, landing: Instance) -> None:
    if stored.state is instances.IDLE and not stored.attested:
        assert landing.state in (instances.IDLE, instances.TERMINATED), f"{stored} was not cleaned before {landing}"
