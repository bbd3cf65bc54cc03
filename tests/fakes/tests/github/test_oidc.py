"""The issuer of jobs' identities."""

import httpx
import jwt
import pytest

from fakes.github.acting import RunnerSide
from fakes.github.hub import FakeGithub, JobSpec


def verified(github: FakeGithub, token: str, audience: str = "bullpen") -> dict[str, object]:
    """As a service that gets a token does it: configuration, keys, signature, claims."""
    configuration = httpx.get(f"{github.issuer}/.well-known/openid-configuration", trust_env=False).json()
    keys = httpx.get(configuration["jwks_uri"], trust_env=False).json()["keys"]
    key = {one["kid"]: one for one in keys}[jwt.get_unverified_header(token)["kid"]]
    claims: dict[str, object] = jwt.decode(
        token, jwt.PyJWK(key), algorithms=["RS256"], audience=audience, issuer=configuration["issuer"]
    )
    return claims


def test_a_token_is_verified_with_what_the_issuer_publishes(github: FakeGithub) -> None:
    claims = verified(github, github.oidc_token(repository="acme/gadgets", run_id="7", run_attempt="2"))
    assert (claims["repository"], claims["run_id"], claims["run_attempt"]) == ("acme/gadgets", "7", "2")
    assert (claims["repository_owner"], claims["event_name"]) == ("acme", "push")


@pytest.mark.parametrize(
    ("claims", "refusal"),
    [
        ({"exp": 1}, jwt.ExpiredSignatureError),
        ({"aud": "another service"}, jwt.InvalidAudienceError),
        ({"iss": "http://127.0.0.1:1"}, jwt.InvalidIssuerError),
        ({"forged": True}, jwt.InvalidSignatureError),
        ({"aud": None}, jwt.MissingRequiredClaimError),
        ({"kid": "unknown"}, KeyError),
    ],
)
def test_a_token_with_wrong_claims_can_be_made(
    github: FakeGithub, claims: dict[str, object], refusal: type[Exception]
) -> None:
    token = github.oidc_token(**claims)
    with pytest.raises(refusal):
        verified(github, token)


def test_a_job_asks_for_its_identity_with_its_environment(api: httpx.Client, github: FakeGithub) -> None:
    listener = RunnerSide(api, github, "r-1", ("4711",))
    listener.listen()
    run = github.start_run("acme/widgets", [JobSpec("build", ("4711",))], event="pull_request")
    environment = listener.next()["env"]
    headers = {"Authorization": f"Bearer {environment['ACTIONS_ID_TOKEN_REQUEST_TOKEN']}"}
    answer = api.get(f"{environment['ACTIONS_ID_TOKEN_REQUEST_URL']}&audience=bullpen", headers=headers)
    claims = verified(github, answer.json()["value"])
    assert (claims["repository"], claims["run_id"], claims["run_attempt"]) == ("acme/widgets", str(run.id), "1")
    assert claims["event_name"] == "pull_request"
    assert github.oidc_environment(run.job("build")).items() <= environment.items()


def test_a_bearer_buys_the_identity_of_its_own_job_only(api: httpx.Client, github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a"), JobSpec("b")])
    url = github.oidc_environment(run.job("a"))["ACTIONS_ID_TOKEN_REQUEST_URL"]
    bearer = github.oidc_environment(run.job("b"))["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]
    assert api.get(url, headers={"Authorization": f"Bearer {bearer}"}).status_code == 401
