"""What is asked of provision, and what became of it."""

from collections.abc import Mapping
from dataclasses import field, replace

from bullpen.errors import BullpenError, FailureCause, Interrupted, ProvisionFailed, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance, InstanceFate
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.report import Lane
from bullpen.model.ticket import Requirements, Verdict


@dataclass(frozen=True, slots=True)
class Request:
    """N instances for a run, all or nothing unless `allow_partial`.

    Silent instances that serve the run already are ended, unless `spares_silent`: they may come back. Where a cap
    leaves no room, it waits for up to `wait` seconds; 0: it fails at once.
    """

    run_id: str
    count: int
    needs: Requirements
    max_runtime: float
    allow_partial: bool = False
    spares_silent: bool = False
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Member:
    """An instance that serves the run."""

    instance: Instance
    origin: Origin


@dataclass(frozen=True, slots=True)
class Discarded:
    """An instance that the provision held for a while and did not keep, why, and what became of it."""

    instance_id: str
    origin: Origin
    reason: str
    outcome: InstanceFate


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of provision. `members` is empty if it failed: everything acquired was given back.

    `verdicts` count those on tickets, `lanes` say when each instance reached each stage.

    `kept` serve the run besides those asked for: a job of the run had begun on each before it could be given back.
    `held` served the run before, and still do if it failed; if it was met they are members.
    """

    run_id: str
    provision_id: str
    requested: int
    members: tuple[Member, ...] = ()
    kept: tuple[Member, ...] = ()
    held: tuple[Member, ...] = ()
    discarded: tuple[Discarded, ...] = ()
    collisions: int = 0
    verdicts: Mapping[Verdict, int] = field(default_factory=dict)
    lanes: tuple[Lane, ...] = ()
    duration: float = 0.0
    timings: dict[WorkPhase, float] = field(default_factory=dict)
    reason: str = ""
    remedy: str = ""
    interrupted: bool = False
    unavailable: bool = False
    cause: FailureCause = FailureCause.NONE

    def failed(self, failure: BullpenError) -> "Outcome":
        return replace(
            self,
            reason=str(failure),
            remedy=failure.remedy,
            interrupted=isinstance(failure, Interrupted),
            unavailable=isinstance(failure, Unavailable),
            cause=failure.cause,
        )

    @property
    def exit_code(self) -> int:
        if self.succeeded:
            return 0
        if self.interrupted:
            return Interrupted.exit_code
        return Unavailable.exit_code if self.unavailable else ProvisionFailed.exit_code

    @property
    def succeeded(self) -> bool:
        return not self.reason

    @property
    def selected(self) -> int:
        return sum(member.origin is Origin.SELECTED for member in self.members)

    @property
    def created(self) -> int:
        return sum(member.origin is Origin.CREATED for member in self.members)
