"""Authentication of the job: its OIDC token from GitHub, and the run's token that the server gives for it."""

from collections.abc import Mapping
from urllib.parse import quote

from bullpen.action import workflow_commands
from bullpen.action.http import NoAnswer, exchange
from bullpen.errors import ConfigError, PermissionDenied

URL, TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
DEFAULT_AUDIENCE = "bullpen"
MISSING = (
    "Give the job `permissions: id-token: write` (list all other permissions that it needs, too), or set server-token."
    " GitHub issues no OIDC token to pull requests from forks."
)
AGAIN = "The OIDC service of GitHub had a problem. Run the job again."
LONGEST = 10.0  # seconds that either answer may take


def job_token(environ: Mapping[str, str], audience: str, patience: float) -> str:
    """The job's OIDC token, masked. Raise ConfigError if the job may not have one, NoAnswer if GitHub fails."""
    url, token = environ.get(URL, ""), environ.get(TOKEN, "")
    if not url or not token:
        raise ConfigError("the job has no OIDC token: `permissions: id-token: write` is missing", remedy=MISSING)
    asked = f"{url}{'&' if '?' in url else '?'}audience={quote(audience, safe='')}"
    try:
        status, answer = exchange("GET", asked, token=token, patience=min(patience, LONGEST))
    except NoAnswer as exc:
        raise NoAnswer(f"GitHub issued no OIDC token: {exc}", exc.retry_after, remedy=AGAIN) from exc
    found = answer.get("value")
    if status >= 500:
        raise NoAnswer(f"GitHub issued no OIDC token: it answered {status}", remedy=AGAIN)
    if status != 200 or not isinstance(found, str) or not found:
        raise PermissionDenied(f"GitHub issued no OIDC token: it answered {status}", remedy=MISSING)
    workflow_commands.mask(found)
    return found


def run_token(server: str, identity: str, patience: float) -> str:
    """The server's token for this run only, in exchange for the job's, masked.

    Raise NoAnswer, PermissionDenied or ConfigError.
    """
    url, body = f"{server}/v1/oidc/token", {"token": identity}
    status, answer = exchange("POST", url, body=body, patience=min(patience, LONGEST))
    if status >= 500:
        raise NoAnswer(f"{server} answered {status}: {answer.get('error', '')}")
    if status == 404:
        raise ConfigError(
            f"{server}: does not accept OIDC tokens of jobs",
            remedy='Set engines.ci = "github" in the settings of `bullpen serve`, or set server-token.',
        )
    token = answer.get("token")
    if not 200 <= status < 300 or not isinstance(token, str):
        raise PermissionDenied(
            f"{server}: refused the job's OIDC token ({status} {answer.get('error', '')})".replace(" )", ")"),
            remedy="See the server's log for the reason. audience must equal github.oidc-audience, the repository must"
            " be in github.scope, and the server's clock must be right.",
        )
    workflow_commands.mask(token)
    return token
