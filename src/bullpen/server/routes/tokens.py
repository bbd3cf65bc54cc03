"""How callers without a secret get a token of this server, by proof of what they are.

    agent           launched without a token: proves which instance it runs on
    workflow run    one of its jobs sends the OIDC token that it got from GitHub

Every refusal of a kind has the same answer. The log never shows a token, nor a proof, which is as good as a password.
"""

from typing import Annotated

from litestar import Router
from litestar.params import JSONBody
from msgspec import Meta

from bullpen.auth.tokens import RUN_LASTS, RunIdentity
from bullpen.errors import NotFound, PermissionDenied
from bullpen.model.instance import LIVE
from bullpen.ports.callers import InstanceProof
from bullpen.schema.agent import AgentToken
from bullpen.schema.base import AnswerBody
from bullpen.schema.requests import ExchangeToken, ProveInstance
from bullpen.server.authentication import forbidden, unauthorized
from bullpen.server.context import Ctx
from bullpen.server.parameters import check_query
from bullpen.server.routes.responses import post
from bullpen.structured_log import get_logger

LARGEST_PROOF = 8 * 1024  # bytes: session tokens have one or two thousand
LARGEST_EXCHANGE = 16 * 1024  # bytes: GitHub's tokens have about two thousand
NO_INSTANCE = "no live instance of this pool has signed this proof"
SEE_LOG = "The log of the server says why."
NO_JOB = "no valid token of a job of this pool's repositories"

log = get_logger("bullpen.server")


class RunToken(AnswerBody, frozen=True):
    """A token for one run, for `expiresIn` seconds. The trust domain is what the run has earned, not what it asked."""

    token: Annotated[str, Meta(description="Token of the run. A secret.")]
    expires_in: Annotated[int, Meta(description="Seconds for which it is valid.")]
    run_id: Annotated[str, Meta(description="Run that it is bound to.")]
    repository: Annotated[str, Meta(description="Repository of the run.")]
    trust_domain: Annotated[str, Meta(description="Trust domain that the run has earned, not what it asked for.")]


@post(
    "/v1/agents/token",
    tags=["agents"],
    summary="Exchange a proof for the token of an instance",
    security=[{}],
    request_max_body_size=LARGEST_PROOF,
)
async def prove_instance(context: Ctx, data: JSONBody[ProveInstance]) -> AgentToken:
    """A token for the instance that signed the proof with its machine's role."""
    verifier = context.verifiers.instances
    if verifier is None:
        raise NotFound("agents of this pool get their token when they are launched")
    with context.admission.work():
        now = context.ports.clock.now()
        try:
            instance_id = await verifier.instance(InstanceProof(data.authorization, data.date, data.session_token), now)
        except PermissionDenied as exc:
            raise forbidden(NO_INSTANCE, SEE_LOG) from exc
        one = (await context.ports.records.instances([instance_id])).get(instance_id)
        if one is None or one.state not in LIVE:
            log.warning("agent gets no token: its instance has no live record", instance=instance_id)
            raise forbidden(NO_INSTANCE, SEE_LOG)
        log.info("agent proved its identity and gets its token", instance=instance_id)
        return AgentToken(context.keys.agent_token(instance_id, now.timestamp()))


@post(
    "/v1/oidc/token",
    tags=["runs"],
    summary="Exchange the OIDC token of a job for a token of its run",
    security=[{}],
    before_request=check_query,
    request_max_body_size=LARGEST_EXCHANGE,
)
async def exchange_token(context: Ctx, data: JSONBody[ExchangeToken]) -> RunToken:
    """The token is valid for 15 minutes, for the labels of the job's own run."""
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
            raise unauthorized(NO_JOB, SEE_LOG) from exc
    log.info("run gets its token", run=found.run, attempt=found.attempt, repository=found.repository, trust=found.trust)
    run = RunIdentity(found.repository, found.run, found.attempt, found.trust)
    token = context.keys.run_token(run, now.timestamp())
    return RunToken(token, RUN_LASTS, found.run, found.repository, found.trust)


ROUTER = Router("/", route_handlers=[prove_instance, exchange_token])
