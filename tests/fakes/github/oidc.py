"""The issuer of jobs' identities: its keys, its description of itself, and the tokens that it signs.

Served below any prefix: the issuer of a token is where its description is found. A job asks for its token with the URL
and the bearer in its environment, and names the audience.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from fakes.github.auth import signing_key
from fakes.github.state import Job, State
from fakes.github.wire import WireAnswer, WireRequest

KEY, STRANGERS_KEY = 1000, 1001
KID = "bullpen-test-key"
CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/.well-known/jwks"
REQUEST_PATH = "/_oidc/token"
AUDIENCE = "bullpen"
LASTS = 300  # seconds
UNKNOWN_REPOSITORY = 700  # the id of one that was never added


def token(state: State, issuer: str, claims: dict[str, Any]) -> str:
    """`kid` and `forged=True` (signed by a stranger) are no claims."""
    now = int(state.clock().timestamp())
    kid = claims.pop("kid", KID)
    key = STRANGERS_KEY if claims.pop("forged", False) else KEY
    repository = claims.get("repository", "acme/widgets")
    known = state.repositories.get(repository.lower())
    whole = {
        "iss": issuer,
        "aud": AUDIENCE,
        "iat": now,
        "nbf": now - 300,
        "exp": now + LASTS,
        "jti": hashlib.sha256(f"{now}{claims}".encode()).hexdigest()[:32],
        "sub": f"repo:{repository}:ref:refs/heads/main",
        "repository": repository,
        "repository_id": str(known.id if known else UNKNOWN_REPOSITORY),
        "repository_owner": repository.partition("/")[0],
        "repository_visibility": "private",
        "run_id": "4711",
        "run_attempt": "1",
        "run_number": "1",
        "event_name": "push",
        "ref": "refs/heads/main",
        "ref_type": "branch",
        "head_ref": "",
        "base_ref": "",
        "actor": "octocat",
        "workflow": "CI",
        "job_workflow_ref": f"{repository}/.github/workflows/ci.yml@refs/heads/main",
        "runner_environment": "self-hosted",
    } | claims
    return jwt.encode({n: v for n, v in whole.items() if v is not None}, signing_key(key), "RS256", {"kid": kid})


def environment(url: str, job: Job) -> dict[str, str]:
    return {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{url}{REQUEST_PATH}?job={job.id}",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": _bearer(job),
    }


def serve(state: State, url: str, issuer: str, request: WireRequest) -> WireAnswer | None:
    """None: not about identities."""
    path = request.path
    if path.endswith(CONFIGURATION):
        base = f"{url}{path.removesuffix(CONFIGURATION)}"
        return WireAnswer(
            200,
            {
                "issuer": base,
                "jwks_uri": f"{base}{KEYS}",
                "id_token_signing_alg_values_supported": ["RS256"],
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
            },
        )
    if path.endswith(KEYS):
        return WireAnswer(200, {"keys": [_public(signing_key(KEY).public_key())]})
    if path == REQUEST_PATH:
        return _token_of_job(state, issuer, request)
    return None


def _token_of_job(state: State, issuer: str, request: WireRequest) -> WireAnswer:
    job = state.job(int(request.query.get("job", "0")))
    if job is None or request.headers.get("authorization") != f"Bearer {_bearer(job)}":
        return WireAnswer(401, {"message": "the bearer is not that of a job"})
    run = job.run
    claims = {
        "aud": request.query.get("audience", f"https://github.com/{run.repository.owner}"),
        "repository": run.repository.name,
        "repository_id": str(run.repository.id),
        "repository_visibility": "private" if run.repository.is_private else "public",
        "run_id": str(run.id),
        "run_attempt": str(job.attempt),
        "run_number": str(run.number),
        "event_name": run.event,
        "environment": job.spec.environment or None,
    }
    value = token(state, issuer, claims)
    return WireAnswer(200, {"value": value, "count": len(value)})


def _bearer(job: Job) -> str:
    return hashlib.sha256(f"bearer of job {job.id}".encode()).hexdigest()


def _public(key: rsa.RSAPublicKey) -> dict[str, str]:
    numbers = key.public_numbers()
    return {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KID, "n": _number(numbers.n), "e": _number(numbers.e)}


def _number(number: int) -> str:
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
