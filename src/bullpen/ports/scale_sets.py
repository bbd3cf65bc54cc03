"""Runner scale sets: the jobs that a CI assigns to a set by its name, and the registrations of the set's runners.

    set        find, find_named, find_everywhere, create,      what a workflow names in `runs-on`
               correct, delete
    session    open, renew, close                              one for each set: only its holder hears of the set's jobs
    messages   poll, acquire, acknowledge                      each comes again, unchanged, until it is acknowledged
    runners    configure, runner, runner_named, remove_runner  a registration for one job each; the CI decides which job

Any message may come twice, late or never, or be unreadable. `SetStatistics` say how many jobs there are: a count of
messages does not.
"""

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn, Protocol

from bullpen.lazy_dataclass import dataclass
from bullpen.ports.world import Removal


@dataclass(frozen=True, slots=True)
class ScaleSetSpec:
    """A set as it should be."""

    name: str
    group: str = ""  # runner group; empty: the default one
    labels: tuple[str, ...] = ()  # what jobs may ask for; empty: the name alone
    disable_update: bool = True  # whether the runner's program must not replace itself


@dataclass(frozen=True, slots=True)
class SetStatistics:
    """How many jobs and runners a set has, by the CI's count. It may lag behind, or stay too high after an incident."""

    assigned: int  # jobs that wait for a runner of the set, and those that run
    running: int
    available: int = 0  # offered and not acquired
    acquired: int = 0
    registered: int = 0  # runners, also those that never connected
    busy: int = 0
    idle: int = 0


@dataclass(frozen=True, slots=True)
class RegisteredSet:
    """A set as the CI has it."""

    id: int
    name: str
    group: int  # id of its runner group
    labels: tuple[str, ...] = ()
    disable_update: bool = False
    statistics: SetStatistics | None = None  # None where the CI does not include them


@dataclass(frozen=True, slots=True)
class MessageSession:
    """An open session. Its holder may keep this value: the engine knows the newest token of a session by its id."""

    id: str
    set_id: int
    statistics: SetStatistics | None
    queue: str = field(repr=False)  # where its messages are
    token: str = field(repr=False)


class JobMessageKind(StrEnum):
    AVAILABLE = "available"  # offered: it must be acquired before it is assigned
    ASSIGNED = "assigned"  # waits for a runner of the set
    STARTED = "started"
    COMPLETED = "completed"  # or the assignment lapsed: then without a runner
    UNKNOWN = "unknown"  # unreadable, or of a type that Bullpen does not know


@dataclass(frozen=True, slots=True)
class JobMessage:
    """What happened to one job. An assignment that lapsed comes back with another `job_id` for the same run."""

    kind: JobMessageKind
    type: str = ""  # in the CI's own word; empty if unreadable
    job_id: str = ""
    request: int = 0  # what `acquire` takes; 0 if it comes assigned
    repository: str = ""  # owner/name
    workflow_run: int = 0
    workflow_ref: str = ""
    event: str = ""
    name: str = ""  # as the run's page shows it
    labels: tuple[str, ...] = ()
    runner_id: int = 0
    runner: str = ""  # empty: it ran on none
    result: str = ""  # of a completed one, in the CI's own word
    queued_at: datetime | None = None
    assigned_at: datetime | None = None  # to the set
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SetMessage:
    """One message. With `trouble` its entries could not be read, and the rest may still be used."""

    id: int
    statistics: SetStatistics | None = None  # None if they cannot be read
    jobs: tuple[JobMessage, ...] = ()
    trouble: str = ""  # what is unreadable, without quoting it


@dataclass(frozen=True, slots=True)
class SetRunner:
    id: int
    name: str
    set_id: int = 0


@dataclass(frozen=True, slots=True)
class JitConfiguration:
    """A registration for one job of the set, whichever that will be. The runner's program is started with `encoded`."""

    runner: SetRunner
    encoded: str = field(repr=False)


class ScaleSets(Protocol):
    """Raise Throttled or Unavailable where a retry may help, PermissionDenied where the credentials do not allow the
    call, Refused where the same call will never succeed. Of a call without an answer it is not known whether it was
    carried out; `find_named` and `runner_named` show it."""

    async def find(self, id: int) -> RegisteredSet | None:
        """The set of this id; None if there is none."""

    async def find_named(self, name: str, group: str = "") -> RegisteredSet | None:
        """The set of this name in a runner group, by default the default one; None if there is none.

        A name is unique within its group only. Raise Refused if there is no such group.
        """

    async def find_everywhere(self, name: str) -> dict[str, RegisteredSet]:
        """The sets of this name in all runner groups, by the name of the group. It takes a request for each group."""

    async def create(self, spec: ScaleSetSpec) -> RegisteredSet:
        """Make a set. Raise Conflict if its group has one of that name, Refused if there is no such group."""

    async def correct(self, id: int, spec: ScaleSetSpec) -> RegisteredSet:
        """Change a set to what it should be. Raise NotFound if there is none, Conflict and Refused as `create`."""

    async def delete(self, id: int) -> None:
        """Remove a set with its session. Gone already is success."""

    async def open(self, set_id: int, owner: str) -> MessageSession:
        """Open the set's session, for a holder of this name.

        Raise Conflict while another one is open: one whose holder was killed ends by itself, after about 50 s. Raise
        NotFound if there is no such set.
        """

    async def renew(self, session: MessageSession) -> MessageSession:
        """The same session with a fresh token and statistics of now. Raise SessionGone if only a new one helps."""

    async def close(self, set_id: int, session_id: str) -> None:
        """End a session, whichever process opened it. Gone already is success."""

    async def poll(self, session: MessageSession, last: int, capacity: int) -> SetMessage | None:
        """The next message after the one with the id `last`; 0 if none was read yet. None after about 50 s without.

        `capacity` is how many jobs the set may have at once, waiting and running. The CI assigns no more. A set at 0
        hears nothing, and a job queued meanwhile is not announced later either. Renew the token in time. Raise
        SessionGone if only a new session helps, UnreadableMessage if the message does not even show its id.
        """

    async def acquire(self, session: MessageSession, requests: Sequence[int]) -> list[int]:
        """Accept jobs that are on offer; return those that are the set's now. To accept one twice is success. Raise
        SessionGone."""

    async def acknowledge(self, session: MessageSession, message: int) -> None:
        """The message is not delivered again. Gone already, alone or with its session, is success."""

    async def configure(self, set_id: int, runner: str, work_folder: str) -> JitConfiguration:
        """Register a runner of this name, of at most 64 characters, for one job. Raise Conflict if the name is taken,
        NotFound if there is no such set."""

    async def runner(self, id: int) -> SetRunner | None:
        """The registration of this id; None if there is none."""

    async def runner_named(self, name: str) -> SetRunner | None:
        """The registration of this name; None if there is none."""

    async def remove_runner(self, id: int) -> Removal:
        """Remove a registration unless the CI knows that it executes a job. It may learn that up to a minute late:
        REMOVED does not prove that the runner is idle."""


class NoScaleSets:
    """For a CI without scale sets: no caller may ask."""

    async def find(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"this CI has no scale sets: {args} {kwargs}")

    find_named = find_everywhere = create = correct = delete = open = renew = close = poll = find
    acquire = acknowledge = configure = runner = runner_named = remove_runner = find
