"""Fleet: a request for machines as data, how its answer is read, and what follows from a short one.

An answer is judged by counting ids. A request that succeeded may have fewer machines than requested, none at all, or
errors beside a full count. So errors explain a shortfall; they never decide that there is one. The cause of a shortfall
decides what follows:

    throttle              a further fleet for what is missing, after a while, a few times
    capacity              a further fleet: on demand instead of spot where the class allows that, or as often as it says
    everything else       the end: the same request would get the same answer
"""

from dataclasses import replace
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass
from bullpen.model.ticket import UsageClass


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """All or nothing: `count` machines of a class at once. The same `client_token` again returns the same machines."""

    client_token: str
    provision_id: str
    run_id: str
    count: int
    resource_class: str
    usage_class: UsageClass
    allowed_types: tuple[str, ...]
    cpu: int
    mem: int


@dataclass(frozen=True, slots=True)
class MachineType:
    """A type of an engine that has a list of its own."""

    name: str
    cpu: int
    mem: int


@dataclass(frozen=True, slots=True)
class LaunchedMachine:
    """A machine that the compute engine launched."""

    id: str
    instance_type: str
    usage_class: UsageClass
    cpu: int
    mem: int


class Cause(StrEnum):
    """Why machines could not be launched: one for each reaction. Of several, the first of these decides."""

    PERMISSION = "permission"
    CONFIGURATION = "configuration"
    QUOTA = "quota"  # the account may not have more: an operator must request it
    THROTTLE = "throttle"  # too many requests: the same request again, later
    CAPACITY = "capacity"  # none left of this kind: another usage class, another try, or give up
    OTHER = "other"  # an unknown code: treated as a lack of capacity


@dataclass(frozen=True, slots=True)
class FleetError:
    code: str  # of the cloud; empty from an engine without codes
    message: str
    cause: Cause = Cause.CAPACITY
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    machines: tuple[LaunchedMachine, ...]
    errors: tuple[FleetError, ...] = ()


@dataclass(frozen=True, slots=True)
class Tries:
    """What may still be tried for one shortfall. `usage_class` is that of the next fleet."""

    usage_class: UsageClass
    fallback: tuple[UsageClass, ...] = ()  # tried next, one after the other, where there is no capacity
    attempts: int = 1  # fleets, this one included, until a lack of capacity counts
    throttles: int = 4  # throttled answers until it is given up

    def after(self, cause: Cause) -> "Tries | None":
        """What may be tried next; None if nothing will help."""
        match cause:
            case Cause.THROTTLE if self.throttles > 0:
                return replace(self, throttles=self.throttles - 1)
            case Cause.CAPACITY | Cause.OTHER if self.fallback:
                return replace(self, usage_class=self.fallback[0], fallback=self.fallback[1:])
            case Cause.CAPACITY | Cause.OTHER if self.attempts > 1:
                return replace(self, attempts=self.attempts - 1)
        return None


def missing(plan: FleetPlan, answer: FleetAnswer) -> int:
    """How many machines are missing: an id counts once."""
    return max(plan.count - len({machine.id for machine in answer.machines}), 0)


def decisive(answer: FleetAnswer) -> FleetError:
    """The error of a short answer that decides what comes next."""
    if not answer.errors:
        return FleetError("", "")  # no errors: there was no more capacity
    order = list(Cause)
    return min(answer.errors, key=lambda error: order.index(error.cause))


def shortfall(plan: FleetPlan, answer: FleetAnswer) -> str:
    """Why the answer does not satisfy the plan; empty if it does."""
    if not (lacking := missing(plan, answer)):
        return ""
    causes = "; ".join(dict.fromkeys(_shown(error) for error in answer.errors))
    launched = f"only {plan.count - lacking}" if lacking < plan.count else "none"
    short = f"{launched} of {plan.count} machines could be launched"
    return (short if plan.count > 1 else "the machine could not be launched") + (f" ({causes})" if causes else "")


def _shown(error: FleetError) -> str:
    return f"{error.code}: {error.message}" if error.code else error.message
