"""How a workflow run gets a token of this server without a secret: one of its jobs sends its OIDC token."""

from litestar.params import JSONBody

from bullpen.auth.tokens import RUN_LASTS, RunIdentity
from bullpen.errors import NotFound, PermissionDenied
from bullpen.schema.base import AnswerBody
from bullpen.schema.requests import ExchangeToken
from bullpen.server.authentication import unauthorized
from bullpen.server.context import Ctx
from bullpen.server.routes.responses import post
from bullpen.structured_log import get_logger

LARGEST = 16 * 1024  # bytes of a body: GitHub's tokens have about two thousand
REFUSAL = "no valid token of a job of this pool's repositories"

log = get_logger("bullpen.server")


class RunToken(AnswerBody, frozen=True):
    """A token for one run, for `expiresIn` seconds. The trust domain is what the run has earned, not what it asked."""

    token: str
    expires_in: int
    run_id: str
    repository: str
    trust_domain: str


@post(
    "/v1/oidc/token",
    tags=["runs"],
    status_code=200,
    summary="Exchange the OIDC token of a job for a token of its run",
    security=[{}],
    request_max_body_size=LARGEST,
)
async def exchange(context: Ctx, data: JSONBody[ExchangeToken]) -> RunToken:
    """Every refusal has the same answer; the log has the reason, and never shows a token."""
    verifier = context.verifiers.jobs
    if verifier is None:
        raise NotFound("this pool has no jobs of GitHub: engines.ci is not github")
    # It may wait for GitHub's keys, and the caller is not known yet: it does not count against other requests.
    with context.admission.watch():
        now = context.ports.clock.now()
        try:
            found = await verifier.identify(data.token, now)
        except PermissionDenied as exc:
            log.warning("OIDC token of a job refused", error=exc)
            raise unauthorized(REFUSAL) from exc
    log.info("run gets its token", run=found.run, attempt=found.attempt, repository=found.repository, trust=found.trust)
    run = RunIdentity(found.repository, found.run, found.attempt, found.trust)
    token = context.keys.run_token(run, now.timestamp())
    return RunToken(token, RUN_LASTS, found.run, found.repository, found.trust)


HANDLERS = (exchange,)
