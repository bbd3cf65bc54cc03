"""Rate limits: so many calls an hour for each account and kind, and now and then a refusal for no visible reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from fakes.github.calling import ApiCall, ApiRefusal
from fakes.github.state import State
from fakes.github.views import example
from fakes.github.wire import WireAnswer

AN_HOUR = timedelta(hours=1)
LIMITS = {"core": 5000, "actions_runner_registration": 10_000}
REGISTERING = ("registration-token", "remove-token", "generate-jitconfig")


@dataclass
class Bucket:
    limit: int
    remaining: int
    resets_at: datetime

    def shown(self) -> dict[str, int]:
        used = self.limit - self.remaining
        return {
            "limit": self.limit,
            "remaining": self.remaining,
            "used": used,
            "reset": int(self.resets_at.timestamp()),
        }


class Limits:
    def __init__(self, state: State) -> None:
        self._state = state
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._refusals: list[tuple[int, int]] = []

    def leave(self, account: str, resource: str, remaining: int, resets_in: float) -> None:
        resets_at = self._state.clock() + timedelta(seconds=resets_in)
        self._buckets[account, resource] = Bucket(LIMITS[resource], remaining, resets_at)

    def refuse(self, retry_after: int, times: int, status: int) -> None:
        self._refusals += [(retry_after, status)] * times

    def spend(self, call: ApiCall) -> None:
        """Pay for a call, or refuse it. To ask for the limits is free."""
        if self._refusals:
            retry_after, status = self._refusals.pop(0)
            headers = {"retry-after": str(retry_after)} if retry_after else {}
            raise ApiRefusal(status, "You have exceeded a secondary rate limit. Please wait a few minutes.", headers)
        if call.operation == "get /rate_limit":
            return
        bucket = self._bucket(call.account, _resource(call))
        if bucket.remaining <= 0:
            raise ApiRefusal(403, "API rate limit exceeded for user ID 1.", self.headers(call))
        bucket.remaining -= 1

    def give_back(self, call: ApiCall) -> None:
        """An answer "not modified" costs nothing."""
        self._bucket(call.account, _resource(call)).remaining += 1

    def headers(self, call: ApiCall) -> dict[str, str]:
        resource = _resource(call)
        shown = self._bucket(call.account, resource).shown()
        return {f"x-ratelimit-{name}": str(value) for name, value in shown.items()} | {"x-ratelimit-resource": resource}

    def overview(self, call: ApiCall) -> WireAnswer:
        shown = example("get /rate_limit")
        shown["resources"] |= {name: self._bucket(call.account, name).shown() for name in LIMITS}
        shown["rate"] = shown["resources"]["core"]
        return WireAnswer(200, shown)

    def _bucket(self, account: str, resource: str) -> Bucket:
        now, limit = self._state.clock(), LIMITS[resource]
        bucket = self._buckets.get((account, resource))
        if bucket is None or bucket.resets_at <= now:
            bucket = self._buckets[account, resource] = Bucket(limit, limit, now + AN_HOUR)
        return bucket


def _resource(call: ApiCall) -> str:
    return "actions_runner_registration" if call.operation.endswith(REGISTERING) else "core"
