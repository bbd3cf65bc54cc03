"""Report of a provision: what one call was asked, what it got, and where its seconds went. For people: no step decides
by it.

    asked ─▶ picked ─▶ claimed ─▶ seen ─────────────────▶ registered     a lane of a reused runner
          └────────────────────────── launched ─▶ booted ─▶ registered     a lane of a new machine
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from bullpen.errors import FailureCause
from bullpen.lazy_dataclass import dataclass
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin, Provision
from bullpen.model.texts import fitting
from bullpen.model.ticket import UsageClass

LANES_KEPT = 200
"""Lanes that a report keeps: what a person reads, and what fits into one item of a store."""

REASON_LENGTH = 500
"""Bytes of a reason that a report or a lane keeps, in UTF-8."""


class ReportOutcome(StrEnum):
    MET = "met"
    PARTIAL = "partial"  # fewer than requested, and the caller accepts that
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Lane:
    """One instance that a provision tried or launched. Times are seconds since the provision was asked; None: that did
    not happen. `reason` and `fate` say why it was not kept, and what became of it."""

    instance_id: str
    origin: Origin
    picked: float | None = None  # its ticket was received, or the index named it
    claimed: float | None = None  # the claim was written
    seen: float | None = None  # its agent acknowledged the claim
    launched: float | None = None  # its machine was launched and its record written
    booted: float | None = None  # the machine booted, and its pre-runner script ended
    registered: float | None = None  # its runner registered
    kept: bool = False
    reason: str = ""
    fate: str = ""


@dataclass(frozen=True, slots=True)
class ProvisionReport:
    """`taken`, `put_back` and `dropped` count the verdicts on tickets. `timings` are seconds by phase."""

    id: str
    run_id: str
    repository: str
    resource_class: str
    usage_class: UsageClass
    trust_domain: str
    asked_at: datetime
    ended_at: datetime
    outcome: ReportOutcome
    cause: FailureCause = FailureCause.NONE
    reason: str = ""
    requested: int = 0
    selected: int = 0
    created: int = 0
    collisions: int = 0
    taken: int = 0
    put_back: int = 0
    dropped: int = 0
    timings: Mapping[WorkPhase, float] = field(default_factory=dict)
    lanes: tuple[Lane, ...] = ()

    @property
    def waited(self) -> float:
        """Seconds from asked to answered."""
        return max((self.ended_at - self.asked_at).total_seconds(), 0.0)


def abandoned(provision: Provision, why: str, patience: float, at: datetime) -> ProvisionReport:
    """The report of a call whose process is gone, by the process that aborts its provision: what the record knows."""
    needs = provision.needs
    return ProvisionReport(
        id=provision.id,
        run_id=provision.run_id,
        repository=needs.repository,
        resource_class=needs.resource_class,
        usage_class=needs.usage_class,
        trust_domain=needs.trust_domain,
        asked_at=provision.asked_at(patience),
        ended_at=at,
        outcome=ReportOutcome.FAILED,
        cause=FailureCause.INTERRUPTED,
        reason=fitting(why, REASON_LENGTH),
        requested=provision.want,
    )
