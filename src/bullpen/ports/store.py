"""The store: records, what agents report, and what refresh saw before."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance, State
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.repository import Repository
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.signal import Heartbeat, Pulse, Signal
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.model.transition import Change, Check, StoryLine

TOGETHER_LIMIT = 100
"""Changes and checks that may land together: what a DynamoDB transaction holds. Every engine keeps to it."""


class InstanceGroup(NamedTuple):
    """What instances that count together have in common. `on_offer`: idle, clean, and not claimed."""

    resource_class: str
    state: State
    on_offer: bool
    instance_type: str
    usage_class: UsageClass


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Delta(Generic[R]):
    """What a reader that knows the versions of some records does not know: those that are new or have another version,
    and the ids of those that are not there any more."""

    changed: list[R]
    gone: list[str]


class Records(Protocol):
    """The truth, and the one way to change a record of any kind. The queries here are of instances, provisions,
    scale sets, repositories, pauses and rotations: reads by id, and those of sets, are consistent; the others are hints
    that may lag."""

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
        """Consistent; absent ids are missing from the answer, and so is a record that cannot be read: one that a
        newer or another program wrote."""

    async def known(self, ids: Sequence[str]) -> set[str]:
        """Those of these instances that have a record, readable or not. Consistent: a process that is about to end a
        machine that no list names asks here first."""

    async def provision(self, provision_id: str) -> Provision | None:
        """Consistent."""

    async def run_instances(self, run_id: str) -> list[Instance]:
        """Every live instance of a run, in order of id. `run_id` is never empty."""

    async def served_runs(self, limit: int, after: str = "") -> dict[str, list[Instance]]:
        """Every live instance of the first `limit` runs after `after` that have any; runs and instances by id."""

    async def run_provisions(self, run_id: str) -> list[Provision]:
        """Every provision of a run that is not closed: what the run did before costs nothing."""

    async def told_provisions(self, run_id: str, limit: int, *, committed: bool = False) -> list[Provision]:
        """The newest provisions of a run that are not purged, closed or not; the newest first. With `committed` those
        that gave it runners, however many failed since."""

    async def claimable(self, needs: Requirements, now: datetime, limit: int, start: str = "") -> list[Instance]:
        """Up to `limit` instances on offer that fit `needs`, thresholds after `now`: those of the requested usage class
        first, then those of its fallback; each by id, from `start` and around."""

    async def pending(self, resource_class: str, limit: int, after: str = "") -> list[Instance]:
        """Ownerless instances on their way to an offer: being cleaned, or pre-warmed and booting; by id, after one."""

    async def owing_instances(self, now: datetime, limit: int) -> list[Instance]:
        """Instances whose debt is due, the longest overdue first."""

    async def due_provisions(self, now: datetime, limit: int) -> list[Provision]:
        """Provisions whose `due_at` has come, the longest overdue first."""

    async def open_provisions(self, resource_class: str) -> list[Provision]:
        """Provisions of a class that are not decided."""

    async def waiting_provisions(self, limit: int) -> list[Provision]:
        """Provisions that have a place in the queue of a cap, of any class; first come first."""

    async def ahead(self, limit: int) -> tuple[list[Provision], list[Pause]]:
        """`waiting_provisions`, and the pauses that are in force; both in one request while nothing waits and nothing
        is paused. Every provision asks before it acquires anything."""

    async def live(self, limit: int, after: str = "") -> list[Instance]:
        """All live instances and those terminated whose end is owed, in pages: by id, after `after`."""

    async def live_since(self, known: Mapping[str, int]) -> Delta[Instance]:
        """What `live` would show now and the caller does not know; `known` has versions by id. A record costs next to
        nothing unless it has changed: a reader may ask this of the largest pool every second."""

    async def count(self) -> dict[tuple[str, State], int]:
        """How many live instances there are, by resource class and state."""

    async def census(self) -> dict[InstanceGroup, int]:
        """How many instances there are that live, or whose end is owed, by group: counted by the store where it can."""

    async def scale_sets(self) -> dict[str, ScaleSet]:
        """Every set that was ever wanted, by name; retired ones too. Consistent. One that cannot be read is missing."""

    async def set_sessions(self) -> dict[str, SetSession]:
        """The session of every set that a process ever listened to, by the set's name. Consistent, as `scale_sets`."""

    async def repositories(self, names: Sequence[str]) -> dict[str, Repository]:
        """Those of these repositories that were ever seen, by case-folded name. Consistent; one that cannot be read is
        missing."""

    async def pauses(self) -> list[Pause]:
        """The pause of the pool and of every class that was ever paused, in force or not; by id. Consistent; one that
        cannot be read is missing."""

    async def rotations(self) -> dict[str, Rotation]:
        """The rotation of every class that ever had one, by class; those that are over, too. Consistent; one that
        cannot be read is missing."""

    async def stories(self, ids: Sequence[str], kind: type[Any] | None = None) -> dict[str, list[StoryLine]]:
        """The last `STORY_LENGTH` steps of each record of any kind, oldest first. If all are of one `kind`, name it: an
        engine that keeps each kind in its own place looks there only."""

    async def purge(self, now: datetime, limit: int) -> int:
        """Remove records of every kind whose `purge_at` has passed, with what belongs to them: stories, signals, cards,
        logs. A worker that still owes its lost jobs stays; an instance that is not booked to its end (`History.book`)
        stays for `UNBOOKED_STAYS`. Engines with a TTL answer 0."""


class Signals(Protocol):
    """What agents report. Reads are consistent."""

    async def report(self, signal: Signal) -> bool:
        """Store a signal if it follows the one that stands there (`Signal.follows`): its `seq` is higher, and not by
        more than `SEQ_STEP`. Say whether it was stored."""

    async def beat(self, heartbeat: Heartbeat) -> bool:
        """Store a heartbeat unless one with the same or a higher `seq` stands there; say whether it was stored."""

    async def read(self, ids: Sequence[str]) -> dict[str, Pulse]:
        """Signal and heartbeat of each instance, in one batched read; every id asked for is in the answer.

        An instance has one worker; if a second one beats for it as well, the newest beat of either counts.
        """

    async def wait(self, timeout: float) -> None:
        """Return when something may have changed, at the latest after `timeout` seconds. A change since the previous
        call counts: no wake-up is lost between two waits."""


class Observations(Protocol):
    """What processes saw before: so that a list that merely lags ends no machine, and one tells another what it saw."""

    async def observe(
        self, topic: str, keys: Sequence[str], now: datetime, *, remember: bool = True
    ) -> dict[str, datetime]:
        """Since when each key has been seen under a topic, at every observation; `now` for a new one.

        With `remember`, new keys are noted and those of the topic that are not named are forgotten.
        """
