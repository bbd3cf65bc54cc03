"""How an agent that was launched without a token gets one: it proves which instance it runs on."""

from litestar.params import JSONBody

from bullpen.errors import NotFound, PermissionDenied
from bullpen.model.instance import LIVE
from bullpen.ports.callers import InstanceProof
from bullpen.schema.agent import AgentToken
from bullpen.schema.requests import ProveInstance
from bullpen.server.authentication import forbidden
from bullpen.server.context import Ctx
from bullpen.server.routes.responses import post
from bullpen.structured_log import get_logger

LARGEST = 8 * 1024  # bytes of a proof: session tokens have one or two thousand
REFUSAL = "no live instance of this pool has signed this proof"

log = get_logger("bullpen.server")


@post(
    "/v1/agents/token",
    tags=["agents"],
    status_code=200,
    summary="A token for the instance that signed the proof",
    security=[{}],
    request_max_body_size=LARGEST,
)
async def attest(context: Ctx, data: JSONBody[ProveInstance]) -> AgentToken:
    """Every refusal has the same answer, and nothing of the proof is logged: it is as good as a password."""
    verifier = context.verifiers.instances
    if verifier is None:
        raise NotFound("agents of this pool get their token when they are launched")
    with context.admission.work():
        now = context.ports.clock.now()
        try:
            instance_id = await verifier.instance(InstanceProof(data.authorization, data.date, data.session_token), now)
        except PermissionDenied as exc:
            raise forbidden(REFUSAL) from exc
        one = (await context.ports.records.instances([instance_id])).get(instance_id)
        if one is None or one.state not in LIVE:
            log.warning("agent gets no token: its instance has no live record", instance=instance_id)
            raise forbidden(REFUSAL)
        log.info("agent proved its identity and gets its token", instance=instance_id)
        return AgentToken(context.keys.agent_token(instance_id, now.timestamp()))


HANDLERS = (attest,)
