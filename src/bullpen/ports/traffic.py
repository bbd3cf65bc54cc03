"""Traffic: how many requests this process has sent to the services behind its engines, and how they ended.

Engines count here; `/metrics` reads it. Nothing decides by these numbers. The labels are bounded: calls have the names
of their API, and of more than `MOST_CALLS` of them the rest is counted together.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass
from bullpen.ports.health import Limit

MOST_CALLS = 200
OTHER = "other"


class RequestResult(StrEnum):
    OK = "ok"
    CONFLICT = "conflict"  # a condition of the request did not hold: expected where processes compete
    THROTTLED = "throttled"  # the service asks for fewer requests
    REFUSED = "refused"  # answered with an error that the same request gets again
    FAILED = "failed"  # no answer, or an error of the service


RequestKey = tuple[str, str, RequestResult]
"""Service, call and result."""


def _no_limits() -> Mapping[str, Limit]:
    return {}


@dataclass(slots=True)
class Traffic:
    """`limits` answers, without a request, what the CI still allows of each kind, as its last answers have said."""

    requests: dict[RequestKey, int] = field(default_factory=dict)
    limits: Callable[[], Mapping[str, Limit]] = _no_limits

    def note(self, service: str, call: str, result: RequestResult) -> None:
        key = (service, call, result)
        if key not in self.requests and len(self.requests) >= MOST_CALLS:
            key = (service, OTHER, result)
        self.requests[key] = self.requests.get(key, 0) + 1


def result_of_status(status: int) -> RequestResult:
    """What the status of an answer over HTTP amounts to."""
    if status == 429:
        return RequestResult.THROTTLED
    if status in (409, 412):
        return RequestResult.CONFLICT
    if status >= 500 or status < 100:
        return RequestResult.FAILED
    return RequestResult.REFUSED if status >= 400 else RequestResult.OK
