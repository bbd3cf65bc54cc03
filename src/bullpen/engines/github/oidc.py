"""The OIDC token of a job: GitHub signs which run of which repository it belongs to, and which event started that run.

    token ─▶ header: RS256 and a key id ─▶ the issuer's key ─▶ signature, issuer, audience ─▶ times ─▶ the scope

Errors say what was wrong with a token and never show it: until it expires, its holder can act as the job.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from bullpen.config import Github, Settings
from bullpen.engines.github.issuer import Fetch, IssuerKeys, issuer
from bullpen.errors import PermissionDenied
from bullpen.model.limits import REPOSITORY_ID, whole
from bullpen.model.trust import trust_domain
from bullpen.ports.callers import JobIdentity
from bullpen.settings.github import covers

if TYPE_CHECKING:
    from jwt import PyJWK

LEEWAY = 60.0  # seconds that this machine's clock may differ from GitHub's


class _Claims(msgspec.Struct):
    """The claims that Bullpen needs."""

    exp: int
    nbf: int
    iat: int
    repository: str
    repository_id: Annotated[str, Meta(pattern=whole(REPOSITORY_ID))]
    run_id: Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,19}\Z")]
    run_attempt: Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,3}\Z")]
    event_name: str
    ref: str = ""
    actor: str = ""


class Identities:
    """Reads the tokens that jobs get from one issuer."""

    def __init__(self, github: Github, fetch: Fetch | None = None) -> None:
        self._issuer = issuer(github)
        self._audience = github.oidc_audience
        self._scope = github.scope
        self._keys = IssuerKeys(self._issuer, fetch)

    async def identify(self, token: str, now: datetime) -> JobIdentity:
        """Whose token it is. Raise PermissionDenied, with what is wrong, and Unavailable without the issuer's keys."""
        key = await self._keys.key(_key_id(token))
        found = _claims(token, key, self._audience, self._issuer)
        _check_times(found, now.timestamp())
        if not covers(self._scope, found.repository):
            raise PermissionDenied(f"{found.repository[:140]!r} is outside github.scope")
        trust = trust_domain(found.repository, int(found.repository_id), found.event_name, found.ref, found.actor)
        return JobIdentity(found.repository, found.run_id, int(found.run_attempt), trust)


def identities(settings: Settings) -> Identities | None:
    """None where jobs are not GitHub's."""
    return Identities(settings.github) if settings.on_github else None


def _key_id(token: str) -> str:
    """The key that a token says it is signed with. Only RS256 is looked at: what a public key must not be used for
    (HS256), and what needs no key (none), never gets to a key."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as exc:
        raise PermissionDenied("not a JWT") from exc
    if header.get("alg") != "RS256":
        raise PermissionDenied("not signed with RS256")
    id = header.get("kid")
    if not isinstance(id, str) or not 1 <= len(id) <= 256:
        raise PermissionDenied("its header names no key (kid)")
    return id


def _claims(token: str, key: "PyJWK", audience: str, issuer: str) -> _Claims:
    import jwt

    # The times are checked below, by `ports.Clock`. Nothing is believed that is not listed here.
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "strict_aud": True}
    try:
        found = jwt.decode(token, key, algorithms=["RS256"], audience=audience, issuer=issuer, options=options)
        return msgspec.convert(found, _Claims)
    except jwt.InvalidSignatureError as exc:
        raise PermissionDenied("the signature is wrong") from exc
    except jwt.InvalidAudienceError as exc:
        raise PermissionDenied("its audience is not github.oidc-audience") from exc
    except jwt.InvalidIssuerError as exc:
        raise PermissionDenied("it comes from another issuer") from exc
    except jwt.MissingRequiredClaimError as exc:
        raise PermissionDenied(f"the claim {exc.claim} is missing") from exc
    except msgspec.ValidationError as exc:
        raise PermissionDenied(f"its claims are not those of a job: {exc}") from exc
    except (jwt.PyJWTError, ValueError, RecursionError) as exc:
        raise PermissionDenied("not a JWT") from exc


def _check_times(found: _Claims, now: float) -> None:
    if now >= found.exp + LEEWAY:
        raise PermissionDenied(f"it expired {now - found.exp:.0f} s ago")
    if max(found.nbf, found.iat) > now + LEEWAY:
        raise PermissionDenied(f"it becomes valid in {max(found.nbf, found.iat) - now:.0f} s")
