"""Whether these credentials may do what the control plane does: IAM simulates each statement of its policy."""

from collections.abc import Iterator
from typing import Any

from bullpen.engines.aws.errors import Declined, call
from bullpen.engines.aws.policies import Place, Statement, control_plane
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError
from bullpen.ports.health import Finding, Health

UNTOLD = ("AccessDenied", "AccessDeniedException", "NoSuchEntity", "InvalidInput")
"""Who may not ask, or whose role has a path that its session does not tell: no proof of anything."""
POLICY = "`bullpen iam-policy control-plane` prints what they need."


async def check_permissions(cloud: Cloud, caller: str, place: Place) -> Finding:
    """`caller` is the ARN that STS names."""
    if caller.endswith(":root"):
        remedy = "Use a role that may do no more than `bullpen iam-policy control-plane` prints."
        return Finding("permissions", Health.WARNING, "the root user may do everything", remedy)
    try:
        denied = [action for one in control_plane(place)["Statement"] for action in await _denied(cloud, caller, one)]
    except Declined as declined:
        return Finding("permissions", Health.WARNING, f"could not be checked ({declined.code})", f"Compare: {POLICY}")
    except BullpenError as exc:
        return Finding("permissions", Health.WARNING, f"could not be checked: {exc}", exc.remedy)
    if denied:
        listed = ", ".join(dict.fromkeys(denied))
        return Finding("permissions", Health.FAILED, f"not allowed: {listed}", f"Allow them: {POLICY}")
    return Finding("permissions", Health.OK, "everything that the control plane does is allowed")


async def _denied(cloud: Cloud, caller: str, statement: Statement) -> list[str]:
    answer = await call(
        await cloud.client("iam"),
        "simulate_principal_policy",
        expecting=UNTOLD,
        PolicySourceArn=principal_of(caller),
        ActionNames=statement["Action"],
        ResourceArns=statement["Resource"],
        ContextEntries=list(_context(statement)),
    )
    results = answer.get("EvaluationResults", ())
    return [one["EvalActionName"] for one in results if one["EvalDecision"] != "allowed"]


def _context(statement: Statement) -> Iterator[dict[str, Any]]:
    """What the call would bring along, as the statement's own condition asks for it."""
    for condition in statement.get("Condition", {}).values():
        for key, wanted in condition.items():
            values = wanted if isinstance(wanted, list) else [wanted]
            # Of several that would do, a call brings one.
            yield {"ContextKeyName": key, "ContextKeyValues": values[:1], "ContextKeyType": "string"}


def principal_of(caller: str) -> str:
    """The role behind a session: `…:sts::1:assumed-role/NAME/SESSION` is a session of `…:iam::1:role/NAME`."""
    head, is_session, tail = caller.partition(":assumed-role/")
    if not is_session:
        return caller
    return f"{head.replace(':sts:', ':iam:')}:role/{tail.partition('/')[0]}"
