"""Time and chance, queues, machines, the CI, and the infrastructure."""

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from bullpen.lazy_dataclass import dataclass
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.model.registration_failure import RegistrationFailure
from bullpen.model.served_set import ServedSet
from bullpen.ports.health import Finding


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, UTC; the store's, where it has one and it is known. Only a clock knows now; durations are
        measured by the event loop's `time()`."""


class StoreClock(Protocol):
    """What the store's own clock says about that of this machine."""

    def ahead(self) -> float | None:
        """Seconds by which this machine's clock is ahead of the store's, negative if it is behind. None where the store
        has no clock of its own, or has not answered yet."""


class NoStoreClock:
    """The store is on this host: it has no other clock."""

    def ahead(self) -> float | None:
        return None


class Chance(Protocol):
    def token(self) -> str:
        """16 hexadecimal characters that cannot be guessed and are never drawn twice."""

    def uniform(self, low: float, high: float) -> float:
        """A number between both, for jitter."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a pool queue. It cannot be taken after `expires`."""

    body: str
    expires: datetime | None = None


class PoolQueue(Protocol):
    """One queue of tickets per resource class. Unordered; a message may come twice or, after a crash, never."""

    @property
    def counts_expired(self) -> bool:
        """Whether `count` includes expired messages until a caller takes them."""

    async def take(self, resource_class: str, limit: int) -> list[str]:
        """Remove and return up to `limit` messages that are not delayed. Empty is no proof that there are none.

        Raise Refused where a queue is missing that another tool has to make.
        """

    async def send(self, resource_class: str, messages: Sequence[Message], delay: float = 0.0) -> None:
        """Add messages, hidden for `delay` seconds. Each keeps its body character by character and its own expiry.

        A class without a queue is no error: tickets are hints, and these are lost unless the engine makes the queue.
        """

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
    """A machine with the tag of this pool, as the compute engine lists it. `alive` is False once it ends or is gone."""

    id: str
    provision_id: str
    launched_at: datetime
    alive: bool
    pid: int | None = None  # of a local machine
    stays: str = ""  # why it would not end when this process asked for that, and what to do about it


class Compute(Protocol):
    async def create_fleet(self, plan: FleetPlan) -> FleetAnswer:
        """One attempt to launch `plan.count` machines. The answer may be short: count the ids.

        A repeat with the same client token launches nothing new and answers with the same machines. Raise Refused
        (InsufficientCapacity, PermissionDenied) or Unavailable where there is no answer.
        """

    async def terminate(self, ids: Sequence[str]) -> list[str]:
        """End machines with everything that runs on them; return those whose end is certain. Gone already is success;
        a machine without the tag of this pool is never touched, and counts as gone."""

    async def sightings(self) -> list[Sighting]:
        """Every machine that carries the tag of this pool."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A runner that the CI knows: `name` is the instance id, `label` what jobs ask for.

    `runner` is what the CI calls it, the name unless said. `online` is None where the CI cannot tell.
    """

    name: str
    label: str
    busy: bool
    runner: str = ""
    online: bool | None = None
    version: str = ""  # of the runner's program, where the CI knows it

    @property
    def handle(self) -> str:
        """What `CI.remove` takes."""
        return self.runner or self.name


@dataclass(frozen=True, slots=True)
class RegistrationCredentials:
    """What an agent needs to register as a runner. With neither `token` nor `jit` it is registered already.

    The three secrets give access to the CI: they are handed to one instance, for one round, and never shown.
    """

    runner: str  # under which name
    label: str
    url: str = ""  # where: a repository or an organisation
    group: str = ""  # of runners; empty: the default one
    token: str = field(default="", repr=False)  # registers
    removal: str = field(default="", repr=False)  # removes again
    jit: str = field(default="", repr=False)  # instead of both: a registration made already, for one job
    oldest: str = ""  # the oldest version of the runner that the CI accepts; empty: not known
    id: int = 0  # the CI's, of a registration made already; 0: not known
    serves: ServedSet | None = None  # the scale set whose jobs it gets, and which of them it may execute


class Removal(StrEnum):
    REMOVED = "removed"  # or was not there
    BUSY = "busy"  # it runs a job: never removed under it


class CI(Protocol):
    async def registrations(self) -> list[Registration]:
        """Every runner of this pool that the CI knows."""

    async def register(self, name: str, label: str, round: str) -> RegistrationCredentials | None:
        """Put a runner on the list for an agent that cannot do so itself, or give it what it needs to do so.

        None, and nothing is written, unless the instance of this name still belongs to the run of this label, in this
        round. The label `set:<name>` is that of a scale set: then its runner gets one job, under a name that was never
        used before, and None also means that the set does not take this instance any more. Refused is about the pool's
        credentials or the set, never about this instance: its agent asks again later.
        """

    def prepare(self, name: str, label: str, round: str) -> None:
        """Begin what `register` will need, for an instance that was just claimed in this round. Its agent asks within a
        second, and the CI may take as long to answer. Returns at once and never raises. Nothing depends on it: what
        fails here is tried again when the agent asks, and what no agent fetches is removed."""

    def failing(self, label: str) -> RegistrationFailure | None:
        """Why registrations for a scale set fail in this process, such as a limit of the CI, and when the next attempt
        is due. None if the last one succeeded, or none was tried."""

    async def remove(self, handle: str) -> Removal:
        """Take a runner off the CI's list unless it is busy. `Registration.handle` names it."""

    def instance_of(self, handle: str) -> str | None:
        """The instance that a runner of this name belongs to; None if the name is not one of this pool's runners.

        The name alone decides: whether the CI lists such a runner is not asked.
        """

    async def refusals(self, versions: Sequence[str]) -> dict[str, datetime]:
        """Those of these versions of the runner's program that the CI refuses soon or already, and from when.

        Soon is what the settings say. A version of which nothing can be learned now is not among them; never raises
        Unavailable.
        """


@dataclass(frozen=True, slots=True)
class Gap:
    """A piece of infrastructure that is missing, or not as the settings ask."""

    what: str  # an order, such as "make table"
    subject: str
    reason: str
    blocks: bool = False  # the pool cannot even be looked at before this one is closed


class Infrastructure(Protocol):
    """What the pool needs besides its records: tables, indexes, templates, the agent's code. Nothing, where a home is
    enough."""

    def check(self) -> None:
        """Raise ConfigError if the settings alone show that no machine can be launched. Makes no call, and is cheap."""

    async def gaps(self) -> list[Gap]:
        """Every gap, in the order in which to close them; changes nothing.

        Raise ConfigError, naming all of them, where the settings say that another tool closes them.
        """

    async def mend(self, gap: Gap) -> None:
        """Close a gap, and return when it is closed. Closed already is success."""

    async def examine(self) -> list[Finding]:
        """Everything that decides whether the pool can work, and what to do where it cannot. Never raises."""


class NoInfrastructure:
    """The infrastructure of an engine that needs none."""

    def check(self) -> None:
        return

    async def gaps(self) -> list[Gap]:
        return []

    async def mend(self, gap: Gap) -> None:
        raise AssertionError(f"no gap can exist here: {gap}")

    async def examine(self) -> list[Finding]:
        return []
