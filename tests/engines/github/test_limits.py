"""Rate limits: which answers are their refusals, how long each closes what, and what is left."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from builders import NOW
from bullpen.engines.github.answers import GithubAnswer, GithubCall
from bullpen.engines.github.limits import UNSAID, RateLimits, is_limited, limits_of
from bullpen.ports.health import Limit

RUNS = GithubCall("GET", "/repos/acme/widgets/actions/runs/4711")
TOKEN = GithubCall("POST", "/orgs/acme/actions/runners/registration-token")
EPOCH = int(NOW.timestamp())


def left(remaining: int, resets_in: int = 30, resource: str = "core") -> dict[str, str]:
    return {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(EPOCH + resets_in),
        "x-ratelimit-resource": resource,
    }


@pytest.mark.parametrize(
    ("status", "headers", "message", "expected"),
    [
        (429, {}, "", True),
        (403, {"retry-after": "5"}, "", True),
        (403, left(0), "API rate limit exceeded", True),
        (403, {}, "You have exceeded a secondary rate limit.", True),
        (403, left(10), "Resource not accessible by integration", False),
        (200, left(0), "", False),
        (404, {}, "", False),
    ],
)
def test_a_limit_is_distinguished_from_a_missing_permission(
    status: int, headers: Mapping[str, str], message: str, expected: bool
) -> None:
    assert is_limited(GithubAnswer(status, headers, {"message": message})) is expected


def test_retry_after_closes_everything_for_so_long() -> None:
    gate = RateLimits()
    assert gate.note(RUNS, GithubAnswer(403, {"retry-after": "7"}), NOW, at=100.0)
    assert gate.wait(RUNS, 101.0) == 6.0
    assert gate.wait(TOKEN, 101.0) == 6.0
    assert gate.wait(RUNS, 108.0) == 0.0


def test_a_limit_that_does_not_say_how_long_closes_everything_for_a_minute() -> None:
    gate = RateLimits()
    gate.note(RUNS, GithubAnswer(429), NOW, at=0.0)
    assert gate.wait(TOKEN, 0.0) == UNSAID


def test_a_resource_that_is_used_up_closes_alone_and_until_its_reset() -> None:
    gate = RateLimits()
    gate.note(TOKEN, GithubAnswer(201, left(5, resource="actions_runner_registration")), NOW, at=0.0)
    assert not gate.note(RUNS, GithubAnswer(200, left(0)), NOW, at=0.0)
    assert gate.wait(RUNS, 0.0) == 30.0
    assert gate.wait(TOKEN, 0.0) == 0.0


def test_a_reset_is_measured_by_the_clock_of_github() -> None:
    gate = RateLimits()
    date = (NOW + timedelta(seconds=20)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    gate.note(RUNS, GithubAnswer(403, {**left(0), "date": date}), NOW + timedelta(hours=5), at=0.0)
    assert gate.wait(RUNS, 0.0) == 10.0


def test_what_is_left_is_known_by_resource() -> None:
    gate = RateLimits()
    gate.note(RUNS, GithubAnswer(200, left(4321)), NOW, at=0.0)
    gate.note(TOKEN, GithubAnswer(201, left(99, resource="actions_runner_registration")), NOW, at=0.0)
    assert {name: one.remaining for name, one in gate.limits.items()} == {
        "core": 4321,
        "actions_runner_registration": 99,
    }


def test_a_server_without_limits_has_none() -> None:
    gate = RateLimits()
    assert not gate.note(RUNS, GithubAnswer(200, {}), NOW, at=0.0)
    assert gate.limits == {}
    assert limits_of({"message": "Rate limiting is not enabled."}) == []


def test_the_rate_limits_are_those_that_bullpen_uses() -> None:
    one = {"limit": 5000, "used": 1, "remaining": 4999, "reset": EPOCH}
    found = limits_of({"resources": {"core": one, "graphql": one}, "rate": one})
    assert found == [Limit("core", 5000, 4999, datetime.fromtimestamp(EPOCH, UTC))]
