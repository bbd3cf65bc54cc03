"""Fleet: a request for machines as data, and how its answer is read.

An answer is judged by counting ids. A request that succeeded may hold fewer machines than asked, none at all, or errors
beside a full count; so errors explain a shortfall, they never decide it.
"""

from dataclasses import dataclass

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
class Machine:
    """A machine that the compute engine launched for us."""

    id: str
    instance_type: str
    usage_class: UsageClass
    cpu: int
    mem: int


@dataclass(frozen=True, slots=True)
class FleetError:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    machines: tuple[Machine, ...]
    errors: tuple[FleetError, ...] = ()


def shortfall(plan: FleetPlan, answer: FleetAnswer) -> str:
    """Why the answer does not satisfy the plan; empty if it does."""
    got = len({machine.id for machine in answer.machines})
    if got >= plan.count:
        return ""
    causes = "; ".join(dict.fromkeys(f"{error.code}: {error.message}" for error in answer.errors))
    return f"{got} of {plan.count} machines were to be had" + (f" ({causes})" if causes else "")
