"""Counts every call of a client of AWS by its name and result: by the client's own events."""

from collections.abc import Mapping
from typing import Any

from bullpen.engines.aws.errors import THROTTLES
from bullpen.ports.traffic import RequestResult, Traffic, result_of_status

CONFLICTS = frozenset(
    {
        "ConditionalCheckFailedException",
        "TransactionCanceledException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)


def count_calls(client: Any, traffic: Traffic) -> None:
    """Count every call that this client makes from now on. A call that the client repeats counts once."""

    def answered(event_name: str = "", parsed: Mapping[str, Any] | None = None, **_: Any) -> None:
        traffic.note(*_named(event_name), _result(parsed or {}))

    def unanswered(event_name: str = "", **_: Any) -> None:
        traffic.note(*_named(event_name), RequestResult.FAILED)

    client.meta.events.register("after-call", answered)
    client.meta.events.register("after-call-error", unanswered)


def _named(event: str) -> tuple[str, str]:
    """Service and call of an event such as `after-call.dynamodb.GetItem`."""
    _, service, call = [*event.split("."), "", ""][:3]
    return service, call


def _result(answer: Mapping[str, Any]) -> RequestResult:
    code = str(answer.get("Error", {}).get("Code", ""))
    if code in CONFLICTS:
        return RequestResult.CONFLICT
    if code in THROTTLES:
        return RequestResult.THROTTLED
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
    return result_of_status(status)
