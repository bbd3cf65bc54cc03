"""What happens to jobs and messages in a world, as GitHub and the machines see it."""

from collections import Counter
from typing import Any

from bullpen.model.activity import Activity
from bullpen.sim.world import World
from scale_sets.fixtures import hub_of, members, session


class WatchedRuns:
    """Jobs that began, by run, attempt and name; machines that ended under a job; messages that were acknowledged; the
    largest number of members."""

    def __init__(self, world: World) -> None:
        self.began: Counter[tuple[str, int, str]] = Counter()
        self.ended_under_a_job: list[str] = []
        self._at_work: dict[str, Activity] = {}
        self._on_work, hub_of(world).on_work = hub_of(world).on_work, self._work
        self._on_end, world.memory.yard.on_end = world.memory.yard.on_end, self._end
        self.acknowledged: list[int] = []
        self.forgotten: list[int] = []
        """Messages that were acknowledged before the record had them."""
        self._world, self._acknowledge = world, hub_of(world).sets.acknowledge
        hub_of(world).sets.acknowledge = self._acknowledged  # type: ignore[method-assign]
        self.most_members = 0
        self._write, world.memory.tables._write = world.memory.tables._write, self._written  # type: ignore[method-assign]

    def _work(self, machine: str, activity: Activity | None) -> None:
        if activity is None:
            self._at_work.pop(machine, None)
        else:
            self._at_work[machine] = activity
            self.began[activity.run, activity.attempt, activity.job] += 1
        self._on_work(machine, activity)

    def _end(self, machine: str) -> None:
        if machine in self._at_work:
            self.ended_under_a_job.append(machine)
        self._on_end(machine)

    def _written(self, change: Any, record: Any) -> None:
        self._write(change, record)
        if change.step == "engage":
            self.most_members = max(self.most_members, len(members(self._world)))

    def _acknowledged(self, id: int, session_id: str, message: int) -> None:
        stored = session(self._world)
        if stored.ci_session == session_id:
            self.acknowledged.append(message)
            if stored.message < message:
                self.forgotten.append(message)
        self._acknowledge(id, session_id, message)
