"""What an agent needs of the control plane's store, whichever way it reaches it.

    sqlite      the agent runs beside the store, and opens the same file
    http        the agent asks `bullpen serve`
    dynamodb    the agent reads and writes the table with the machine's own credentials; it takes no jobs there

Every method may raise `StoreUnreachable`. The agent then goes on with what it knows and tries again later. No method
waits for longer than a few seconds, because the loop that calls it also sends the heartbeat.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from bullpen.agent.decide import NoRecord
from bullpen.agent.progress import End, HeldJob, InstanceRecord, LeaseHolder, SignalKind
from bullpen.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from bullpen.model.served_set import ServedSet


class StoreUnreachable(Exception):
    """The store did not answer. Nothing is known; a write may or may not have landed."""


class StillBusy(StoreUnreachable):
    """The CI does not remove the registration: it says that its runner has a job. A retry may help, after the job."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a heartbeat.

    `holder` is the worker and the epoch in which this agent holds jobs from now on. `retired` means that the control
    plane ends this instance. `next_in` is when the next heartbeat is expected, in seconds; 0: as configured.
    """

    holder: LeaseHolder
    resurrected: bool = False
    retired: bool = False
    next_in: float = 0.0


class NoCredentials(Exception):
    """The agent cannot register with GitHub now, and trying again at once would not help. Its text is for people."""


@dataclass(frozen=True, slots=True)
class RunnerCredentials:
    """What one registration with GitHub takes. Its secrets are in no repr, and so in no log."""

    runner: str  # the name that GitHub will know this agent by
    label: str  # the only one: what the run's jobs ask for
    url: str = ""  # the repository or organisation
    group: str = ""  # runner group; empty: the default one
    token: str = field(default="", repr=False)  # to register with
    removal: str = field(default="", repr=False)  # to remove the registration with; empty: the server removes it
    jit: str = field(default="", repr=False)  # the whole registration, already made: then there is no token
    oldest: str = ""  # the oldest version of the runner that GitHub goes on accepting; empty: not known
    id: int = 0  # GitHub's, of the registration that `jit` is; 0: not known
    serves: ServedSet | None = None  # the scale set whose jobs it gets; None: it serves a run


NO_SETS = "an agent registers for a scale set through `bullpen serve` only: set agent.serve-url"


class OwnList(Enum):
    """The answer to a registration where Bullpen itself is the CI, or where there is nothing to register any more."""

    LISTED = auto()  # the runner is on Bullpen's own list, under the label of its run
    MOVED_ON = auto()  # the record is not the one that was seen: another round, another run, or given back


@dataclass(frozen=True, slots=True)
class Order:
    """A job that was taken, the command it runs, and its number among the jobs submitted with it.

    With a `source` its working directory has the files of it; `artifacts` are patterns of files to keep.
    """

    job: HeldJob
    command: tuple[str, ...]
    index: int = 0
    source: str = ""
    artifacts: tuple[str, ...] = ()

    @property
    def has_files(self) -> bool:
        """Then it gets a directory of its own."""
        return bool(self.source or self.artifacts)


class Sink(Protocol):
    """Where a job's output goes. What it cannot take is lost, never an error."""

    def write(self, content: bytes) -> None: ...

    def close(self) -> None: ...


class AgentJobs(Protocol):
    """Jobs of Bullpen's own queue. The rules are those of `bullpen.model.job`, on every store."""

    def take_job(self, record: InstanceRecord) -> Order | None:
        """Take the next job of the record's run that suits this worker.

        None: no job waits, the worker's lease has run out or its machine leaves, or the instance does not run in this
        round any more. Called only after a first heartbeat.
        """

    def standing(self, job: HeldJob) -> End | None:
        """Why the job must end, as the store has it; None: it may go on.

        The answer may be as old as the last heartbeat.
        """

    def settle_job(self, job: HeldJob) -> bool:
        """Write the job's end. False: it was refused, because the assignment is not the current one any more.

        Settling the same end twice answers True twice: the first answer may have been lost.
        """

    def give_back_job(self, job: HeldJob, why: str) -> None:
        """Give the job to another worker, or fail it if it has lost too many. The agent leaves, and nothing of the job
        runs any more. A job that this worker does not hold stays as it is."""

    def open_log(self, job: HeldJob) -> Sink:
        """Where the output of this assignment goes. Raise OSError."""


class AgentStore(Protocol):
    """One instance's view of the store. Not for two threads."""

    @property
    def jobs(self) -> AgentJobs | None:
        """Bullpen's own jobs; None where the store gives none to agents."""

    def has_changed(self) -> bool:
        """True if the record may have changed since the last call: then it is time to look again.

        Every change is announced within some seconds of its write. The answer may be True although nothing changed.
        """

    def read_record(self) -> InstanceRecord | NoRecord:
        """The instance's record as it is stored, or ABSENT. A record that this agent cannot read is StoreUnreachable.

        `has_job` is True only for a worker that could take the job: not before its first heartbeat.
        """

    def beat(self, job: HeldJob | None, leaving: datetime | None = None, activity: str = "") -> Grant:
        """Renew the lease, and report in the same write which job runs here and when the machine will be taken away.

        The first one registers the worker and describes it. `activity` is a job of a CI with jobs of its own; a
        heartbeat without one reports that none runs; or which registration of a scale set waits for one. A beat that is
        repeated because its answer was lost counts once.
        """

    def stop(self) -> None:
        """Report that this worker has stopped, so that its record is cleaned up now and not when its lease runs out.

        Does nothing before the first heartbeat, nor on a store where only a sweeper decides about workers.
        """

    def report(self, kind: SignalKind, record: InstanceRecord, text: str) -> None:
        """Write a signal of this record's round and wake the control plane; `text` is cut to `limits.REASON_LENGTH`.

        Its number is higher than that of every signal of the instance before it, also of an earlier process.
        """

    def register(self, record: InstanceRecord, refused_job: str = "") -> RunnerCredentials | OwnList:
        """Appear under the label of the record's run, or get what it takes to register with GitHub.

        Nothing is written, and no secret is given, for a record that has moved on. Raise NoCredentials, which says why,
        where registering now cannot succeed. `refused_job` is a job of a scale set that this agent has refused since
        the last call, and why: only `bullpen serve` takes it, and only it registers for sets.
        """

    def deregister(self, runner: str = "") -> None:
        """Leave Bullpen's own list; not being on it is success.

        `runner` is the name that GitHub knows this agent by. `bullpen serve` deregisters it there too; on the other
        stores the agent does that itself. Raise StillBusy if GitHub says that this runner has a job.
        """

    def removal_token(self) -> str:
        """A token that removes a registration at GitHub now. Raise NoCredentials where the server does that."""

    def close(self) -> None:
        """Let go of every connection, and send what is left of the logs. Never raises."""
