"""Wait: why a run, a job, an instance or a scale set does not go on, as one cause of a closed list.

    the run's own end       run-over, no-match
    room and machines       paused, cap, no-capacity
    the pool has one, but   trust-domain, image-retired, requirements, cleaning
    on its way              booting, queued-behind, runner-lost
    outside                 runner-group-closed, github-limit, github-outage, no-server

For people and dashboards: no decision depends on it.
"""

from collections import Counter
from datetime import datetime
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import State
from bullpen.model.ticket import RefusalRule


class WaitCause(StrEnum):
    """Why something waits. A wait has one cause: the one that, once removed, lets it go on first."""

    RUN_OVER = "run-over"  # its run has ended: nothing will take it
    NO_MATCH = "no-match"  # no run, set, label or capability of the pool matches it
    CAP = "cap"  # a cap leaves no room, or others wait in front of it at that cap
    NO_CAPACITY = "no-capacity"  # the compute engine has no machine, or refuses to launch one
    BOOTING = "booting"  # a machine is launched, boots or registers
    CLEANING = "cleaning"  # an instance that fits is being cleaned
    TRUST_DOMAIN = "trust-domain"  # the instances of the pool were used by another trust domain
    IMAGE_RETIRED = "image-retired"  # the instances of the pool have an older image
    RUNNER_GROUP_CLOSED = "runner-group-closed"  # the runner group does not admit the repository
    GITHUB_LIMIT = "github-limit"  # GitHub's rate limit is used up
    GITHUB_OUTAGE = "github-outage"  # GitHub does not answer
    NO_SERVER = "no-server"  # no process does the work that it waits for
    PAUSED = "paused"  # an operator paused its class, or the pool
    QUEUED_BEHIND = "queued-behind"  # jobs of its run occupy all runners that the run has
    REQUIREMENTS = "requirements"  # the instances of the pool lack what it asks for: cpu, memory, type, usage class
    RUNNER_LOST = "runner-lost"  # no runner of its run shows a sign of life
    UNKNOWN = "unknown"


class WaitKind(StrEnum):
    """What waits."""

    RUN = "run"
    JOB = "job"
    INSTANCE = "instance"
    SET = "set"


class SubjectKind(StrEnum):
    """What an id that is asked about names."""

    RUN = "run"
    JOB = "job"
    INSTANCE = "instance"
    PROVISION = "provision"
    WORKER = "worker"
    SET = "set"
    REPOSITORY = "repository"
    PAUSE = "pause"
    ROTATION = "rotation"


class TimelineOutcome(StrEnum):
    """What became of a provision: `open` while it is not decided."""

    OPEN = "open"
    MET = "met"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instance that could serve what waits, and the rule that refuses it."""

    instance_id: str
    state: State
    rule: RefusalRule
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ExplainedWait:
    """One wait. `because` says why, `next` what happens next; `seconds_left` is known where history shows how long
    that takes. `candidates` are some of the instances of its class; `refusals` count all of them by rule."""

    subject: str
    kind: WaitKind
    cause: WaitCause
    because: str
    next: str = ""
    run_id: str = ""
    repository: str = ""
    resource_class: str = ""
    since: datetime | None = None
    seconds_left: float | None = None
    refusals: tuple[tuple[RefusalRule, int], ...] = ()
    candidates: tuple[Candidate, ...] = ()


def by_count(refused: Counter[RefusalRule]) -> tuple[tuple[RefusalRule, int], ...]:
    """How many each rule refuses: the most first, equal ones by the name of the rule."""
    return tuple(sorted(refused.items(), key=lambda one: (-one[1], one[0])))


def cause_named(text: str) -> WaitCause:
    """The cause that a record names; UNKNOWN for none, and for one of another version."""
    try:
        return WaitCause(text)
    except ValueError:
        return WaitCause.UNKNOWN
