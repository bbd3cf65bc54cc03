"""Rate limits: what is left, and how long GitHub asks a client to wait.

    primary     so many requests an hour for each resource; `x-ratelimit-remaining: 0` closes it until its reset
    secondary   too much at once; `retry-after`, or a minute where it does not say, closes everything

Both come as 403 or 429. A client that goes on asking is shut out for longer, so no call is made before its time. Times
are measured against the clock that GitHub answers with: this machine's may be wrong.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from bullpen.engines.github.answers import GithubAnswer, GithubCall
from bullpen.ports.health import Limit

UNSAID = 60.0
"""Seconds to wait where GitHub limits the client and says neither how long nor until when."""

SHORTEST, LONGEST = 1.0, 3600.0  # seconds
EVERYTHING = ""
USUAL = "core"


class RateLimits:
    """What is left of each resource, and what is closed until when. Moments are the event loop's."""

    def __init__(self) -> None:
        self.limits: dict[str, Limit] = {}
        self._closed: dict[str, float] = {}  # resource → until
        self._resources: dict[str, str] = {}  # kind of call → resource, as the answers have said

    def wait(self, call: GithubCall, at: float) -> float:
        """Seconds for which a call must not be made."""
        resource = self._resources.get(call.kind, USUAL)
        return max(0.0, *(self._closed.get(name, at) - at for name in (EVERYTHING, resource)))

    def note(self, call: GithubCall, answer: GithubAnswer, now: datetime, at: float) -> bool:
        """Take in an answer; whether it is the refusal of a limit."""
        limit = _limit_of(answer.headers)
        if limit is not None:
            self.limits[limit.resource] = limit
            if len(self._resources) < 64:
                self._resources[call.kind] = limit.resource
        limited = is_limited(answer)
        if limit is not None and limit.remaining == 0 and "retry-after" not in answer.headers:
            self._closed[limit.resource] = at + _sane((limit.resets_at - _date(answer.headers, now)).total_seconds())
        elif limited:
            said = answer.headers.get("retry-after", "")
            self._closed[EVERYTHING] = at + (_sane(float(said)) if said.isascii() and said.isdigit() else UNSAID)
        return limited


def is_limited(answer: GithubAnswer) -> bool:
    """Whether it refuses the call for its frequency, and not for what it is."""
    if answer.status == 429:
        return True
    signs = "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"
    return answer.status == 403 and (signs or "rate limit" in answer.message.lower())


def limits_of(body: object) -> list[Limit]:
    """Those in the answer of GET /rate_limit that Bullpen uses."""
    found = body.get("resources", {}) if isinstance(body, dict) else {}
    used = (USUAL, "actions_runner_registration")
    return [
        Limit(name, int(found[name]["limit"]), int(found[name]["remaining"]), _moment(found[name]["reset"]))
        for name in used
        if name in found
    ]


def _limit_of(headers: Mapping[str, str]) -> Limit | None:
    try:
        return Limit(
            headers.get("x-ratelimit-resource", USUAL),
            int(headers["x-ratelimit-limit"]),
            int(headers["x-ratelimit-remaining"]),
            _moment(int(headers["x-ratelimit-reset"])),
        )
    except (KeyError, ValueError, OverflowError):  # a server of one's own may have them turned off
        return None


def _moment(epoch: int) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


def _date(headers: Mapping[str, str], now: datetime) -> datetime:
    try:
        return parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError):
        return now


def _sane(wait: float) -> float:
    """Whatever an answer says: no time at all would be a loop, and every limit ends within the hour."""
    return min(max(SHORTEST, wait), LONGEST)
