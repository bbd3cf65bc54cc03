"""Workers and their leases, and the jobs of the embedded CI with what they print."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from bullpen.lazy_dataclass import dataclass
from bullpen.model.control import Control
from bullpen.model.job import Job
from bullpen.model.worker import Accepted, Beat, Card, Rejected, Worker
from bullpen.ports.store import Delta

LOG_LIMIT = 4 * 1024 * 1024
"""Bytes of one log that are kept: what a job prints in good order, not what it prints in a loop."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """The lease of an active worker of an instance: until when it holds, for how many seconds it was granted, and when
    the worker last beat."""

    instance_id: str
    deadline: datetime
    seconds: float
    beat_at: datetime


class Workers(Protocol):
    """Workers and their leases. Changes of one that are no beats land through `Records`."""

    async def beat(self, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
        """Receive beats by worker key, each on its own and as `model.worker.receive` says, in one write; in order.

        Of two first beats of one key at once, one registers it; the other meets what then stands. A first beat of a key
        that was purged begins in a later epoch than the key ever had.
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

    async def lost(self, limit: int) -> list[Worker]:
        """Inactive workers that have not beaten since they were lost."""

    async def leaving(self, limit: int) -> list[Worker]:
        """Active workers whose machine is about to be interrupted."""

    async def listed(self, limit: int, after: str = "") -> list[Worker]:
        """All workers but tombstones, by key, after `after`."""

    async def census(self) -> dict[tuple[str, str], int]:
        """How many workers there are, by domain and state, tombstones excluded."""

    async def leases(self, since: datetime, limit: int) -> list[HeldLease]:
        """The leases of instances' active workers that were renewed after `since`, of at most `limit` workers. For
        people: may lag."""

    async def describe(self, key: str, card: Card) -> None:
        """Store what a worker reports about itself, apart from its lease: written on change only.

        It goes when the worker is cleaned up; of one that is cleaned up or unknown nothing is stored.
        """

    async def cards(self, keys: Sequence[str]) -> dict[str, Card]:
        """What workers reported about themselves; those that reported nothing are missing."""

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
        the limit counts: jobs that do not suit hide none that do.
        """

    async def runners_used(self, run_id: str, since: datetime, limit: int) -> list[str]:
        """Instances that hold a job of the run, or held one until `since` or later; of `limit` jobs of the run.

        May lag: it decides which of several runners goes first, not whether one may.
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

    async def changed(self, run_ids: Sequence[str], known: Mapping[str, int], limit: int) -> Delta[Job]:
        """What `of_run` would show of these runs now and the caller does not know; `known` has versions by id. Of more
        than `limit` jobs, some."""

    async def sources(self) -> set[str]:
        """The ids of the sources that queued and running jobs need. Consistent."""


class Logs(Protocol):
    """What jobs print, kept apart for each assignment (job and fence)."""

    async def append(self, job_id: str, fence: int, offset: int, content: bytes) -> int:
        """Write at an offset and return the length; what is there already is left alone, a gap is Refused.

        What would go beyond `LOG_LIMIT` is dropped: a full log takes everything and keeps its length.
        """

    async def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        """Empty at the end, and for a log that does not exist."""
