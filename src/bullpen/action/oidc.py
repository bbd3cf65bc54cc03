"""The job's identity: a token that GitHub signs for this job, made out to the server, and what it buys there."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from bullpen.action.http import NoAnswer, exchange
from bullpen.errors import ConfigError, PermissionDenied

URL, TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
DEFAULT_AUDIENCE = "bullpen"
MISSING = (
    "Give the job `permissions: id-token: write` (other permissions that it needs must then be listed too), or pass"
    " server-token. GitHub gives no identity to pull requests from forks."
)


AGAIN = "GitHub's own service gives jobs their identity. Run the job again."
LONGEST = 10.0  # seconds that either answer may take


def signed(environ: Mapping[str, str], audience: str, mask: Callable[[str], None], patience: float = LONGEST) -> str:
    """The job's token, masked. Raise ConfigError if the job may not have one, NoAnswer if GitHub gives none now."""
    url, token = environ.get(URL, ""), environ.get(TOKEN, "")
    if not url or not token:
        raise ConfigError("the job has no identity to show: `permissions: id-token: write` is missing", remedy=MISSING)
    asked = f"{url}{'&' if '?' in url else '?'}audience={quote(audience, safe='')}"
    try:
        status, answer = exchange("GET", asked, token=token, patience=min(patience, LONGEST))
    except NoAnswer as exc:
        raise NoAnswer(f"GitHub gives no identity: {exc}", exc.retry_after, remedy=AGAIN) from exc
    found = answer.get("value")
    if status >= 500:
        raise NoAnswer(f"GitHub gives no identity: it answered {status}", remedy=AGAIN)
    if status != 200 or not isinstance(found, str) or not found:
        raise PermissionDenied(f"GitHub gives no identity: it answered {status}", remedy=MISSING)
    mask(found)
    return found


def bought(server: str, identity: str, mask: Callable[[str], None], patience: float = LONGEST) -> str:
    """The server's token for this run only, masked. Raise NoAnswer, PermissionDenied or ConfigError."""
    shown = {"token": identity}
    status, answer = exchange("POST", f"{server}/v1/oidc/token", body=shown, patience=min(patience, LONGEST))
    if status >= 500:
        raise NoAnswer(f"{server} answered {status}: {answer.get('error', '')}")
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
