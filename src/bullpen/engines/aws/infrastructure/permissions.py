"""Whether these credentials may do what the control plane does: IAM simulates each of its calls."""

from collections.abc import Iterator
from dataclasses import replace

from bullpen.engines.aws.errors import Declined, call
from bullpen.engines.aws.infrastructure.policies import QUOTA_CODES, PolicyScope, Statement, control_plane
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError
from bullpen.lazy_dataclass import dataclass
from bullpen.ports.health import Finding, Health

UNTOLD = ("AccessDenied", "AccessDeniedException", "NoSuchEntity", "InvalidInput")
"""The caller may not ask, or its role has a path that its session does not show: that proves nothing."""
POLICY = "`bullpen iam-policy control-plane` prints what they need."

Context = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """Actions, each of them on each of the resources; `context` are keys and values of the call."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    context: Context


async def check_permissions(cloud: Cloud, caller: str, place: PolicyScope) -> Finding:
    """`caller` is the ARN that STS names."""
    if caller.endswith(":root"):
        remedy = "Use a role with only the permissions that `bullpen iam-policy control-plane` prints."
        return Finding("permissions", Health.WARNING, "the root user has every permission", remedy)
    try:
        principal = principal_of(caller)
        denied = [action for one in questions(place, principal) for action in await _denied(cloud, principal, one)]
    except Declined as declined:
        return Finding("permissions", Health.WARNING, f"could not be checked ({declined.code})", f"Compare: {POLICY}")
    except BullpenError as exc:
        return Finding("permissions", Health.WARNING, f"could not be checked: {exc}", exc.remedy)
    if denied:
        listed = ", ".join(dict.fromkeys(denied))
        return Finding("permissions", Health.FAILED, f"not allowed: {listed}", f"Allow them: {POLICY}")
    return Finding("permissions", Health.OK, "every call of the control plane is allowed")


async def _denied(cloud: Cloud, principal: str, question: Question) -> list[str]:
    answer = await call(
        await cloud.client("iam"),
        "simulate_principal_policy",
        expecting=UNTOLD,
        PolicySourceArn=principal,
        ActionNames=list(question.actions),
        ResourceArns=list(question.resources),
        ContextEntries=[
            {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
            for key, value in question.context
        ],
    )
    results = answer.get("EvaluationResults", ())
    return [one["EvalActionName"] for one in results if one["EvalDecision"] != "allowed"]


def questions(place: PolicyScope, principal: str) -> Iterator[Question]:
    """What the control plane does, each action on what it is done to and with what the call brings along. A policy that
    allows no more than this, in other statements than `policies` prints, is as good."""
    for statement in control_plane(place)["Statement"]:
        groups: dict[tuple[tuple[str, ...], Context], list[str]] = {}
        for action in statement["Action"]:
            needed: dict[Context, list[str]] = {}
            for resource in statement["Resource"]:
                if _is_needed(action, resource):
                    needed.setdefault(_context(statement, resource), []).extend(_real(resource, place, principal))
            for context, resources in needed.items():
                if resources:  # none: a form of it that this caller has not, as a user is no role
                    groups.setdefault((tuple(resources), context), []).append(action)
        for (together, context), actions in groups.items():
            yield Question(tuple(actions), together, context)


def _is_needed(action: str, resource: str) -> bool:
    """Whether the action is done to this, and not only others of its statement."""
    if action == "ec2:CreateFleet":
        return any(kind in resource for kind in (":fleet/", ":launch-template/"))
    if action == "ec2:RunInstances":
        return ":fleet/" not in resource
    return action == "dynamodb:Query" or "/index/" not in resource


def _real(resource: str, place: PolicyScope, principal: str) -> list[str]:
    """What stands behind a resource that the policy writes shorter than it is."""
    if resource in (place.iam_arn("role/*"), place.iam_arn("user/*")):
        return [principal] if principal.startswith(resource.removesuffix("*")) else []
    if resource == place.arn("servicequotas", "ec2/*"):
        return [place.arn("servicequotas", f"ec2/{code}") for code in QUOTA_CODES.values()]
    if resource.startswith(short := place.unique_arn("")):
        id_ = resource.removeprefix(short)
        shared = id_.startswith(("image/", "snapshot/"))  # of no account
        return [replace(place, account="").arn("ec2", id_) if shared else place.arn("ec2", id_)]
    return [resource]


def _context(statement: Statement, resource: str) -> Context:
    """What the call would bring along, as the statement's own condition asks for it."""
    found = []
    for condition in statement.get("Condition", {}).values():
        for key, wanted in condition.items():
            values = wanted if isinstance(wanted, list) else [wanted]
            # Of several that would do, a call brings one. Templates are made by a call of their own, the last.
            found.append((key, values[-1] if ":launch-template/" in resource else values[0]))
    return tuple(found)


def principal_of(caller: str) -> str:
    """The role behind a session: `…:sts::1:assumed-role/NAME/SESSION` is a session of `…:iam::1:role/NAME`."""
    head, is_session, tail = caller.partition(":assumed-role/")
    if not is_session:
        return caller
    return f"{head.replace(':sts:', ':iam:')}:role/{tail.partition('/')[0]}"
