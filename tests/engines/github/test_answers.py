"""GitHub's refusals: each becomes the error that says what to do, and names call, scope and permission."""

from collections.abc import Mapping

import pytest

from bullpen.engines.github.answers import GithubAnswer, GithubCall, failure
from bullpen.engines.github.permissions import READ_RUNS, Right, runners
from bullpen.errors import PermissionDenied, Refused, Unavailable

NAMED = "github.token"
MAKE_TOKEN = "/orgs/acme/actions/runners/registration-token"


def refusal(
    status: int, message: str = "No.", right: Right | None = None, headers: Mapping[str, str] | None = None
) -> Exception:
    return failure(
        GithubCall("POST", MAKE_TOKEN, right), GithubAnswer(status, headers or {}, {"message": message}), NAMED
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, PermissionDenied),
        (403, PermissionDenied),
        (404, Refused),
        (409, Refused),
        (410, Refused),
        (422, Refused),
        (301, Refused),
        (500, Unavailable),
        (502, Unavailable),
    ],
)
def test_each_status_asks_for_its_reaction(status: int, kind: type[Exception]) -> None:
    found = refusal(status)
    assert type(found) is kind
    assert f"GitHub POST {MAKE_TOKEN}: No. ({status})" in str(found)


@pytest.mark.parametrize(
    ("scope", "named"),
    [
        ("acme", 'organisation permission "Self-hosted runners: write" (of a classic token: the scope admin:org)'),
        ("acme/widgets", 'repository permission "Administration: write" (of a classic token: the scope repo)'),
    ],
)
def test_a_missing_permission_is_named(scope: str, named: str) -> None:
    assert named in str(refusal(403, "Resource not accessible by integration", runners(scope)))


def test_a_permission_that_github_names_itself_is_the_one_that_counts() -> None:
    accepted = {"x-accepted-github-permissions": "administration=write"}
    assert "administration=write" in str(refusal(403, right=READ_RUNS, headers=accepted))
    assert '"Administration: write"' in str(refusal(403, right=runners("a/b"), headers=accepted))


def test_refused_credentials_are_called_by_their_setting() -> None:
    found = refusal(401, "Bad credentials")
    assert isinstance(found, PermissionDenied)
    assert "github.token is invalid, has expired, or was revoked" in str(found)
    assert "doctor" in found.remedy


def test_a_clock_that_is_wrong_is_said_to_be_wrong() -> None:
    found = refusal(401, "'Expiration time' claim ('exp') is too far in the future")
    assert isinstance(found, PermissionDenied)
    assert found.remedy == "Set the clock of this machine."


def test_what_is_missing_may_only_be_hidden() -> None:
    assert "does not exist, or github.token may not see it" in str(refusal(404, "Not Found"))


def test_a_message_includes_the_details_of_a_422_and_is_cut_when_long() -> None:
    body = {"message": "Validation Failed", "errors": ["name is too long", {"field": "labels", "code": "invalid"}]}
    assert GithubAnswer(422, {}, body).message == "Validation Failed; name is too long; labels invalid"
    assert len(GithubAnswer(422, {}, {"message": "x" * 5000}).message) < 500
    assert GithubAnswer(502, {}, None).message == "no message"


def test_an_answer_does_not_show_what_it_carries() -> None:
    assert "hidden" not in repr(GithubAnswer(201, {"a": "hidden"}, {"token": "hidden"}))
