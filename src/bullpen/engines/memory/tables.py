"""Records and their stories in memory, and the one place where a change lands."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bullpen.engines.memory.index import (
    Indexes,
    InstanceIndexes,
    JobIndexes,
    PauseIndexes,
    ProvisionIndexes,
    WorkerIndexes,
)
from bullpen.engines.memory.notify import MemoryWakeups
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model import job as jobs
from bullpen.model.control import Control
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.pause import Pause
from bullpen.model.provision import OPEN, Provision
from bullpen.model.repository import Repository
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.transition import STORY_LENGTH, Change, Check, StoryLine
from bullpen.model.worker import CLEANED_UP, Card, Worker
from bullpen.ports import TOGETHER_LIMIT


class Tables:
    """Shared by all simulated processes. Nothing here awaits, so every method is atomic."""

    def __init__(self, control: MemoryWakeups, lag: float = 0.0) -> None:
        self.instances: dict[str, Instance] = {}
        self.provisions: dict[str, Provision] = {}
        self.workers: dict[str, Worker] = {}
        self.cards: dict[str, Card] = {}
        self.forgotten_epoch = 0  # the highest of all workers that were removed
        self.jobs: dict[str, Job] = {}
        self.logs: dict[tuple[str, int], bytearray] = {}
        self.controls: dict[str, Control] = {}
        self.scale_sets: dict[str, ScaleSet] = {}
        self.set_sessions: dict[str, SetSession] = {}
        self.repositories: dict[str, Repository] = {}
        self.pauses: dict[str, Pause] = {}
        self.rotations: dict[str, Rotation] = {}
        self.stories: dict[str, deque[StoryLine]] = {}
        self.unbooked: dict[str, None] = {}
        """Instances that have ended, and whose last booking has not landed."""
        self._control = control
        self._bells: dict[str, MemoryWakeups] = {}
        self.instance_indexes = InstanceIndexes(lag)
        self.provision_indexes = ProvisionIndexes(lag)
        self.worker_indexes = WorkerIndexes(lag)
        self.job_indexes = JobIndexes(lag)
        self.pause_indexes = PauseIndexes(lag)
        self._kinds: dict[type[Any], tuple[dict[str, Any], Indexes[Any]]] = {
            Instance: (self.instances, self.instance_indexes),
            Provision: (self.provisions, self.provision_indexes),
            Worker: (self.workers, self.worker_indexes),
            Job: (self.jobs, self.job_indexes),
            Control: (self.controls, Indexes(lag)),
            ScaleSet: (self.scale_sets, Indexes(lag)),
            SetSession: (self.set_sessions, Indexes(lag)),
            Repository: (self.repositories, Indexes(lag)),
            Pause: (self.pauses, self.pause_indexes),
            Rotation: (self.rotations, Indexes(lag)),
        }

    def bell(self, instance_id: str) -> MemoryWakeups:
        """Rung when the record of this instance changes: what its agent listens to."""
        return self._bells.setdefault(instance_id, MemoryWakeups())

    def land(self, changes: Sequence[Change[Any]], checks: Sequence[Check] = ()) -> list[Any]:
        """All of them or, with a Conflict, none."""
        if len(changes) + len(checks) > TOGETHER_LIMIT:
            raise ValueError(f"{len(changes)} changes and {len(checks)} checks together, at most {TOGETHER_LIMIT}")
        if len({change.before.id for change in changes}) < len(changes):
            raise ValueError("two changes of one record cannot land together")
        for check in checks:
            self._verify(check)
        landing = [self._landing(change) for change in changes]
        for change, record in zip(changes, landing, strict=True):
            self._write(change, record)
        return landing

    def _verify(self, check: Check) -> None:
        stored = self._kinds[check.kind][0].get(check.id)
        if stored is None:
            raise Conflict(f"{check.id} is absent")
        for guard in check.guards:
            if not guard.holds(stored):
                raise Conflict(f"{check.id} must have {guard}", found=stored)

    def _landing(self, change: Change[Any]) -> Any:
        """The record as it will be stored; the stored one itself if this very change has landed before."""
        stored = self._table(change.before).get(change.before.id)
        if _has_landed(change, stored):
            return stored
        before = change.before
        if stored is None:
            if before.version != 0:
                raise Conflict(f"{before.id}: {change.step} of a record that is absent")
            return change.after
        if (stored.version, stored.state) != (before.version, before.state):
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
        table, indexes = self._kinds[type(record)]
        if table.get(record.id) is record:
            return  # landed before
        if isinstance(record, Instance):
            _assert_consistent(record)
        indexes.follow(record.id, record)
        table[record.id] = record
        if isinstance(record, Worker) and record.state is CLEANED_UP:
            self.cards.pop(record.id, None)
        if isinstance(record, Instance) and record.purge_at is not None:
            self.unbooked[record.id] = None
        if change.line is not None:
            self.stories.setdefault(record.id, deque(maxlen=STORY_LENGTH)).append(change.line)
        self._wake(change, record)

    def holds(self, record: Any) -> bool:
        """Whether the record is still there: an index may lag."""
        return record.id in self._table(record)

    def remove(self, record: Any) -> None:
        """With what belongs to it."""
        table, indexes = self._kinds[type(record)]
        del table[record.id]
        indexes.follow(record.id, None)
        self.stories.pop(record.id, None)
        match record:
            case Instance():
                self.bell(record.id).ring()
                del self._bells[record.id]
                self.unbooked.pop(record.id, None)
            case Worker():
                self.cards.pop(record.id, None)
                self.forgotten_epoch = max(self.forgotten_epoch, record.epoch)
            case Job():
                for fence in range(record.fence + 1):
                    self.logs.pop((record.id, fence), None)

    def _wake(self, change: Change[Any], record: Any) -> None:
        """Its agent; and the control plane if it may wait for an offer, room, a decision, a turn, a worker or a job."""
        match record:
            case Instance():
                if record.id in self._bells:
                    self._bells[record.id].ring()
                wakes_control = record.is_claimable or record.state is instances.TERMINATED
            case Provision():
                wakes_control = record.state is not OPEN or change.before.waits_for not in ("", record.waits_for)
            case Job():
                for instance_id, bell in self._bells.items():
                    if self._concerns(record, instance_id):
                        bell.ring()
                wakes_control = True
            case _:
                wakes_control = change.line is not None
        if wakes_control:
            self._control.ring()

    def _concerns(self, job: Job, instance_id: str) -> bool:
        """Whether the agent of an instance has something to do about a job: to take it, or to stop it."""
        if job.state is jobs.QUEUED:
            found = self.instances.get(instance_id)
            return found is not None and found.run_id == job.run_id
        return job.cancelling and job.instance_id == instance_id

    def _table(self, record: Any) -> dict[str, Any]:
        return self._kinds[type(record)][0]


def _has_landed(change: Change[Any], stored: Any) -> bool:
    after = change.after
    return change.draws_round and stored is not None and (stored.version, stored.round) == (after.version, after.round)


def _assert_consistent(record: Instance) -> None:
    """What the schema of the SQL engine refuses. A step that gets here is a fault of the program, not of the world."""
    idle = record.state is instances.IDLE
    assert not record.attested or (idle and not record.run_id), f"{record} is attested, but not idle and free"
    assert not idle or not record.run_id, f"{record} is idle and has a run"
    assert record.state is not instances.CLAIMED or record.run_id, f"{record} is claimed and has no run"
    assert not idle or record.attested or (record.owes and record.owes.kind is instances.InstanceDebt.OFFER), (
        f"{record} is neither on offer nor on its way there"
    )


def _assert_cleaned_before_claimed(stored: Instance, landing: Instance) -> None:
    if stored.state is instances.IDLE and not stored.attested:
        assert landing.state in (instances.IDLE, instances.TERMINATED), f"{stored} was not cleaned before {landing}"
