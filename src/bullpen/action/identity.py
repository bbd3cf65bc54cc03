"""The job's identity: a token that GitHub signs for this job, made out to the server, and what it buys there."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from bullpen.action.wire import Away, exchange
from bullpen.errors import ConfigError, PermissionDenied, Unavailable

URL, TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
DEFAULT_AUDIENCE = "bullpen"
MISSING = (
    "Give the job `permissions: id-token: write` (other permissions that it needs must then be listed too), or pass"
    " server-token. GitHub gives no identity to pull requests from forks."
)


def signed(environ: Mapping[str, str], audience: str, mask: Callable[[str], None]) -> str:
    """The job's token, masked. Raise ConfigError if the job may not have one, Unavailable if GitHub gives none now."""
    url, token = environ.get(URL, ""), environ.get(TOKEN, "")
    if not url or not token:
        raise ConfigError("the job has no identity to show: `permissions: id-token: write` is missing", remedy=MISSING)
    asked = f"{url}{'&' if '?' in url else '?'}audience={quote(audience, safe='')}"
    try:
        status, answer = exchange("GET", asked, token=token, patience=10.0)
    except Away as exc:
        raise Unavailable(f"GitHub gives no identity: {exc}", remedy="Run the job again.") from exc
    found = answer.get("value")
    if status != 200 or not isinstance(found, str) or not found:
        raise Unavailable(f"GitHub gives no identity: it answered {status}", remedy=MISSING)
    mask(found)
    return found


def bought(server: str, identity: str, mask: Callable[[str], None]) -> str:
    """What the server gives for it: a token for this run only, masked. Raise Away, PermissionDenied or ConfigError."""
    status, answer = exchange("POST", f"{server}/v1/oidc/token", body={"token": identity}, patience=10.0)
    if status == 404:
        raise ConfigError(
            f"{server}: takes no job's identity",
            remedy='Set engines.ci = "github" for `bullpen serve`, or pass server-token.',
        )
    token: Any = answer.get("token")
    if not 200 <= status < 300 or not isinstance(token, str):
        raise PermissionDenied(
            f"{server}: refuses the job's identity ({status} {answer.get('error', '')})".replace(" )", ")"),
            remedy="See the server's log for the reason: audience and github.oidc-audience must be the same, the"
            " repository inside github.scope, and both clocks right.",
        )
    mask(token)
    return token
