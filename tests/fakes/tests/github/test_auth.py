"""Tokens, Apps, and their permissions."""

import httpx
import jwt
import pytest

from fakes.github.acting import RUNNERS, WIDGETS, caller
from fakes.github.hub import FakeGithub, JobSpec

TOKENS = "/app/installations/{}/access_tokens"


def signed(github: FakeGithub, app: str, pem: str, *, issued: int = -60, expires: int = 540) -> str:
    now = int(github.clock().timestamp())
    return jwt.encode({"iss": app, "iat": now + issued, "exp": now + expires}, pem, "RS256")


def test_without_credentials_nothing_is_answered(github: FakeGithub) -> None:
    answer = httpx.get(f"{github.api_url}{RUNNERS}", headers={"User-Agent": "tests"}, trust_env=False)
    assert (answer.status_code, answer.json()["message"]) == (401, "Requires authentication")


def test_an_unknown_revoked_or_expired_token_is_bad(github: FakeGithub) -> None:
    revoked, expired = github.token(), github.token(expires_in=60)
    github.revoke(revoked)
    github.advance(61)
    for token in ("ghp_guessed", revoked, expired):
        with caller(github, token) as api:
            answer = api.get(RUNNERS)
        assert (answer.status_code, answer.json()["message"]) == (401, "Bad credentials")


@pytest.mark.parametrize(
    ("method", "path", "permission"),
    [
        ("GET", RUNNERS, "administration=read"),
        ("POST", f"{RUNNERS}/registration-token", "administration=write"),
        ("DELETE", f"{RUNNERS}/1", "administration=write"),
        ("GET", "/orgs/acme/actions/runners", "organization_self_hosted_runners=read"),
        ("POST", "/orgs/acme/actions/runners/remove-token", "organization_self_hosted_runners=write"),
        ("GET", f"{WIDGETS}/actions/runs/1", "actions=read"),
        ("POST", f"{WIDGETS}/actions/jobs/1/rerun", "actions=write"),
        ("POST", f"{WIDGETS}/actions/runs/1/cancel", "actions=write"),
        ("GET", f"{WIDGETS}/deployments", "deployments=read"),
    ],
)
def test_a_missing_permission_is_refused_and_named(github: FakeGithub, method: str, path: str, permission: str) -> None:
    name, _, level = permission.partition("=")
    less = {"metadata": "read"} | ({name: "read"} if level == "write" else {})
    with caller(github, github.token(permissions=less)) as api:
        answer = api.request(method, path)
    assert answer.status_code == 403
    assert answer.headers["x-accepted-github-permissions"] == permission


def test_what_a_token_cannot_see_does_not_exist_for_it(github: FakeGithub) -> None:
    github.add_repository("acme/secret")
    with caller(github, github.token(scope="acme/widgets")) as api:
        assert api.get(RUNNERS).status_code == 200
        assert api.get("/repos/acme/secret/actions/runners").status_code == 404
        assert api.get("/orgs/acme/actions/runners").status_code == 404
        assert api.get("/repos/acme/missing/actions/runners").status_code == 404


def test_an_app_buys_a_token_for_an_hour_that_is_longer_than_forty_characters(github: FakeGithub) -> None:
    app, pem = github.app()
    with caller(github, signed(github, app, pem)) as api:
        installation = api.get(f"{WIDGETS}/installation").json()["id"]
        bought = api.post(TOKENS.format(installation))
    assert installation == github.installation_id(app)
    assert bought.status_code == 201
    assert len(bought.json()["token"]) > 300
    with caller(github, bought.json()["token"]) as api:
        assert api.get(RUNNERS).status_code == 200
        github.advance(3601)
        assert api.get(RUNNERS).status_code == 401


@pytest.mark.parametrize(
    ("issued", "expires", "complaint"),
    [(-60, 700, "too far in the future"), (-700, -60, "future time"), (120, 500, "'Issued at'")],
)
def test_an_app_must_sign_for_now_and_for_ten_minutes_at_most(
    github: FakeGithub, issued: int, expires: int, complaint: str
) -> None:
    app, pem = github.app()
    with caller(github, signed(github, app, pem, issued=issued, expires=expires)) as api:
        answer = api.get("/app")
    assert answer.status_code == 401
    assert complaint in answer.json()["message"]


def test_an_app_with_a_replaced_key_or_an_unknown_id_is_refused(github: FakeGithub) -> None:
    app, old = github.app()
    new = github.replace_app_key(app)
    for credential, status in ((signed(github, app, old), 401), (signed(github, "7", new), 401)):
        with caller(github, credential) as api:
            assert api.get("/app").status_code == status
    with caller(github, signed(github, app, new)) as api:
        assert api.get("/app").json()["id"] == int(app)


def test_an_app_that_calls_as_itself_manages_no_runners_and_a_token_is_no_app(github: FakeGithub) -> None:
    app, pem = github.app()
    with caller(github, signed(github, app, pem)) as api:
        assert api.get(RUNNERS).status_code == 401
    with caller(github) as api:
        assert api.post(TOKENS.format(github.installation_id(app))).status_code == 401


def test_an_app_is_found_only_where_it_is_installed(github: FakeGithub) -> None:
    github.add_repository("other/thing")
    app, pem = github.app(scope="acme")
    with caller(github, signed(github, app, pem)) as api:
        assert api.get("/orgs/acme/installation").status_code == 200
        assert api.get("/repos/other/thing/installation").status_code == 404
        assert api.post(TOKENS.format(1)).status_code == 404


def test_an_installation_grants_no_more_than_its_app_has(github: FakeGithub) -> None:
    app, pem = github.app(permissions={"actions": "read"})
    with caller(github, signed(github, app, pem)) as api:
        bought = api.post(TOKENS.format(github.installation_id(app))).json()["token"]
        wanted = {"permissions": {"administration": "write"}}
        assert api.post(TOKENS.format(github.installation_id(app)), json=wanted).status_code == 422
    github.start_run("acme/widgets", [JobSpec("build")])
    with caller(github, bought) as api:
        assert api.get(f"{WIDGETS}/actions/runs").json()["total_count"] == 1
        refused = api.get(RUNNERS)
    assert (refused.status_code, refused.json()["message"]) == (403, "Resource not accessible by integration")


def test_an_unsupported_version_of_the_api_is_refused(api: httpx.Client) -> None:
    assert api.get(RUNNERS, headers={"X-GitHub-Api-Version": "2022-11-28"}).status_code == 200
    assert api.get(RUNNERS, headers={"X-GitHub-Api-Version": "1999-01-01"}).status_code == 400


def test_a_request_without_a_user_agent_is_refused(api: httpx.Client) -> None:
    assert api.get(RUNNERS, headers={"User-Agent": ""}).status_code == 403
