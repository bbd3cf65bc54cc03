"""What Bullpen needs from outside: the architecture on one page.

Every engine keeps these promises; `tests/conformance/` holds each of them to account. Engines translate their own
errors into `bullpen.errors`: `Unavailable` where a retry may help, `Refused` where it will not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from bullpen.errors import Conflict
from bullpen.model.control import Control
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.model.instance import Instance, State
from bullpen.model.job import Job
from bullpen.model.provision import Provision
from bullpen.model.signal import Heartbeat, Pulse, Signal
from bullpen.model.ticket import Requirements
from bullpen.model.transition import Change, Check, StoryLine
from bullpen.model.worker import Accepted, Beat, Card, Rejected, Worker

TOGETHER_LIMIT = 100
"""Changes and checks that may land together: what a DynamoDB transaction holds. Every engine keeps to it."""

LOG_LIMIT = 4 * 1024 * 1024
"""Bytes of one log that are kept: what a job prints in good order, not what it prints in a loop."""


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, UTC. Only a clock knows now; durations are measured by the event loop's `time()`."""


class Chance(Protocol):
    def token(self) -> str:
        """16 hexadecimal characters that nobody can guess and nobody else will draw."""

    def uniform(self, low: float, high: float) -> float:
        """A number between both, for jitter."""


class Records(Protocol):
    """The truth, and the one way to change a record of any kind. The queries here are of instances and provisions:
    reads by id are consistent; the others are hints that may lag."""

    async def apply(self, *changes: Change[Any], checks: Sequence[Check] = ()) -> list[Any]:
        """Land all changes together or nothing at all, and return the records as stored.

        At most `TOGETHER_LIMIT`, checks included. Raise Conflict (with the record `found`) unless each stored record
        still has the version and state of `change.before` and meets the guards; a `before` of version 0 must be absent.
        Every check must hold at the moment of the write, on a record that is not changed by it; one of an absent record
        does not. A change that draws a round and finds this very round stored at its version has landed before: that is
        success. The story line, if the step has one, lands with it.
        """

    async def apply_each(self, changes: Sequence[Change[Any]]) -> list[Any | Conflict]:
        """Land each change on its own, in as few requests as possible; Conflicts come back as values, in order."""

    async def instances(self, ids: Sequence[str]) -> dict[str, Instance]:
        """Consistent; absent ids are missing from the answer."""

    async def provision(self, provision_id: str) -> Provision | None:
        """Consistent."""

    async def run_instances(self, run_id: str) -> list[Instance]:
        """Every live instance of a run, in order of id. `run_id` is never empty."""

    async def run_provisions(self, run_id: str) -> list[Provision]:
        """Every provision of a run that is not closed: what the run did before costs nothing."""

    async def told_provisions(self, run_id: str, limit: int) -> list[Provision]:
        """The newest provisions of a run that are not purged, closed or not; the newest first."""

    async def claimable(self, needs: Requirements, now: datetime, limit: int, start: str = "") -> list[Instance]:
        """Up to `limit` instances on offer that fit `needs`, thresholds after `now`; by id, from `start` and around."""

    async def pending(self, resource_class: str, limit: int, after: str = "") -> list[Instance]:
        """Ownerless instances on their way to an offer: being cleaned, or pre-warmed and booting; by id, after one."""

    async def due_instances(self, now: datetime, limit: int) -> list[Instance]:
        """Instances whose `due_at` has come, by threshold or debt, the longest overdue first."""

    async def owing_instances(self, now: datetime, limit: int) -> list[Instance]:
        """Instances whose debt is due, the longest overdue first."""

    async def due_provisions(self, now: datetime, limit: int) -> list[Provision]:
        """Provisions whose `due_at` has come, the longest overdue first."""

    async def open_provisions(self, resource_class: str) -> list[Provision]:
        """Provisions of a class that are not decided."""

    async def live(self, limit: int, after: str = "") -> list[Instance]:
        """All live instances and those terminated whose end is owed, in pages: by id, after `after`."""

    async def count(self) -> dict[tuple[str, State], int]:
        """How many live instances there are, by resource class and state."""

    async def stories(self, ids: Sequence[str]) -> dict[str, list[StoryLine]]:
        """The last `STORY_LENGTH` steps of each record (instance or provision), oldest first."""

    async def purge(self, now: datetime, limit: int) -> int:
        """Remove records of every kind whose `purge_at` has passed, with what belongs to them: stories, signals, cards,
        logs. A worker that still owes its lost jobs stays. Engines with a TTL answer 0."""


class Signals(Protocol):
    """What agents report. Reads are consistent."""

    async def report(self, signal: Signal) -> bool:
        """Store a signal unless one with the same or a higher `seq` stands there; say whether it was stored."""

    async def beat(self, heartbeat: Heartbeat) -> bool:
        """Store a heartbeat unless one with the same or a higher `seq` stands there; say whether it was stored."""

    async def read(self, ids: Sequence[str]) -> dict[str, Pulse]:
        """Signal and heartbeat of each instance, in one batched read; every id asked for is in the answer."""

    async def wait(self, timeout: float) -> None:
        """Return when something may have changed, at the latest after `timeout` seconds. A change since the previous
        call counts: no wake-up is lost between two waits."""


class Workers(Protocol):
    """Workers and their leases. Changes of one that are no beats land through `Records`."""

    async def beat(self, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
        """Receive beats by worker key, each on its own and as `model.worker.receive` says, in one write; in order.

        Of two first beats of one key at once, one registers it; the other meets what then stands.
        """

    async def workers(self, keys: Sequence[str]) -> dict[str, Worker]:
        """Consistent; absent keys are missing from the answer."""

    async def rearm(self, now: datetime, limit: int) -> int:
        """Move the due timers of active workers whose lease was renewed to their deadlines; returns how many."""

    async def suspects(self, now: datetime, limit: int) -> list[Worker]:
        """Active workers whose deadline has passed, the longest silent first."""

    async def to_clean(self, now: datetime, limit: int) -> list[Worker]:
        """Inactive workers whose cleanup is due."""

    async def owing(self, limit: int) -> list[Worker]:
        """Workers whose lost jobs are not all given away."""

    async def listed(self, limit: int, after: str = "") -> list[Worker]:
        """All workers but tombstones, by key, after `after`."""

    async def census(self) -> dict[tuple[str, str], int]:
        """How many workers there are, by domain and state, tombstones excluded."""

    async def describe(self, key: str, card: Card) -> None:
        """Store what a worker says of itself, apart from its lease: written on change only."""

    async def cards(self, keys: Sequence[str]) -> dict[str, Card]:
        """What workers said of themselves; those who said nothing are missing."""

    async def controls(self) -> dict[str, Control]:
        """What sweepers have agreed on, by name. Consistent."""


class Jobs(Protocol):
    """Jobs of the embedded CI. Their changes land through `Records`."""

    async def jobs(self, ids: Sequence[str]) -> dict[str, Job]:
        """Consistent; absent ids are missing from the answer."""

    async def queued(
        self, run_id: str, now: datetime, limit: int, capabilities: Sequence[str] | None = None, without: str = ""
    ) -> list[Job]:
        """Jobs of a run that may be assigned now, the oldest first; one that was lost comes before new ones.

        With `capabilities`, none that asks for another one; with `without`, none that avoids this worker. Both before
        the limit counts: what suits nobody here hides nothing behind it.
        """

    async def held(self, worker: str, through_epoch: int, limit: int) -> list[Job]:
        """Running jobs assigned to a worker in an epoch up to this one. Consistent: none means that none is left."""

    async def unverified(self, now: datetime, limit: int) -> list[Job]:
        """Running jobs that their worker should have bound by now, and has not."""

    async def waiting_runs(self, limit: int, after: str = "") -> list[str]:
        """Runs that have queued jobs, in order, after `after`."""

    async def unfinished(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        """Jobs of a run that are queued or running; by id, after `after`."""

    async def of_run(self, run_id: str, limit: int, after: str = "") -> list[Job]:
        """All jobs of a run, finished ones included until purged; by id, after `after`."""


class Logs(Protocol):
    """What jobs print, kept apart for each assignment (job and fence)."""

    async def append(self, job_id: str, fence: int, offset: int, content: bytes) -> int:
        """Write at an offset and return the length; what is there already is left alone, a gap is Refused.

        What would go beyond `LOG_LIMIT` is dropped: a full log takes everything and keeps its length.
        """

    async def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        """Empty at the end, and for a log that does not exist."""


class PoolQueue(Protocol):
    """One queue of tickets per resource class. Unordered; a message may come twice or, after a crash, never."""

    async def take(self, resource_class: str, limit: int) -> list[str]:
        """Remove and return up to `limit` messages that are not delayed. Empty is no proof that there are none."""

    async def send(
        self, resource_class: str, bodies: Sequence[str], delay: float = 0.0, expires: datetime | None = None
    ) -> None:
        """Add messages, hidden for `delay` seconds. They are gone after `expires`, whether anybody took them or not."""

    async def count(self, resource_class: str) -> int:
        """About how many messages there are, hidden ones included. Changes nothing."""

    async def names(self) -> list[str]:
        """The resource classes that have a queue."""

    async def ensure(self, resource_class: str) -> None:
        """Make the queue if it is missing."""

    async def retire(self, resource_class: str) -> None:
        """Remove the queue and what is in it; gone already is success."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A machine that carries our tag, as the compute engine lists it. `alive` is False once it is ending or gone."""

    id: str
    provision_id: str
    launched_at: datetime
    alive: bool
    pid: int | None = None  # of a local machine


class Compute(Protocol):
    async def create_fleet(self, plan: FleetPlan) -> FleetAnswer:
        """One attempt to launch `plan.count` machines. The answer may be short: count the ids.

        A repeat with the same client token launches nothing new and answers with the same machines. Raise Refused
        (InsufficientCapacity, PermissionDenied) or Unavailable where there is no answer.
        """

    async def terminate(self, ids: Sequence[str]) -> list[str]:
        """End machines with everything that runs on them; return those whose end is certain. Gone already is success;
        an id that is not ours is never touched, and counts as gone."""

    async def sightings(self) -> list[Sighting]:
        """Every machine that carries our tag."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A runner that the CI knows: `name` is the instance id, `label` what jobs ask for."""

    name: str
    label: str
    busy: bool


class Removal(StrEnum):
    REMOVED = "removed"  # or was not there
    BUSY = "busy"  # it runs a job: never removed under it


class CI(Protocol):
    async def registrations(self) -> list[Registration]:
        """Every runner of ours that the CI knows."""

    async def register(self, name: str, label: str, round: str) -> bool:
        """Put a runner on the list, for an agent that cannot do so itself; whether it stands there now.

        Nothing is written unless the instance of this name still belongs to the run of this label, in this round.
        """

    async def remove(self, name: str) -> Removal:
        """Take a runner off the CI's list unless it is busy."""


class Observations(Protocol):
    """What refresh saw before, so that a list that merely lags condemns nobody."""

    async def observe(
        self, topic: str, keys: Sequence[str], now: datetime, *, remember: bool = True
    ) -> dict[str, datetime]:
        """Since when each key has been seen under a topic, at every observation; `now` for a new one.

        With `remember`, new keys are noted and those of the topic that are not named are forgotten.
        """


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything outside, handed to each use case as one argument."""

    clock: Clock
    chance: Chance
    records: Records
    signals: Signals
    queue: PoolQueue
    compute: Compute
    ci: CI
    observations: Observations
    workers: Workers
    jobs: Jobs
    logs: Logs
