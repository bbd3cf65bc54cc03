"""The heartbeat endpoints as the description shows them. `server.heartbeats` serves them before any routing; a
request that gets here spells the path differently, as with a slash at its end, and gets a 404."""

from litestar import Router
from litestar.exceptions import NotFoundException
from litestar.params import JSONBody

from bullpen.liveness.schema import HeartbeatAnswer, HeartbeatRequest
from bullpen.schema.base import AnswerBody, RequestBody
from bullpen.server.heartbeats import BATCH, SINGLE
from bullpen.server.routes.responses import post


class HeartbeatBatch(RequestBody, frozen=True):
    """1 to 1000 beats."""

    heartbeats: list[HeartbeatRequest]


class BeatResult(AnswerBody, frozen=True, omit_defaults=True):
    """What a single beat is answered, or an error in its place."""

    token: int | None = None
    epoch: int | None = None
    granted_lease_seconds: float | None = None
    next_in_seconds: float | None = None
    stop: list[str] | None = None
    state: str | None = None
    resurrected: bool | None = None
    error: str | None = None
    field: str | None = None
    value: str | None = None
    allowed: str | None = None
    remedy: str | None = None


class BeatResults(AnswerBody, frozen=True):
    """One result for each beat, in order."""

    results: list[BeatResult]


@post(SINGLE, summary="Renew a worker's lease")
async def heartbeat(data: JSONBody[HeartbeatRequest]) -> HeartbeatAnswer:
    raise NotFoundException


@post(BATCH, summary="Renew the leases of many workers, each on its own")
async def heartbeat_batch(data: JSONBody[HeartbeatBatch]) -> BeatResults:
    raise NotFoundException


ROUTER = Router("/", route_handlers=[heartbeat, heartbeat_batch], tags=["heartbeats"])
