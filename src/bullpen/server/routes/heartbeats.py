"""The heartbeat endpoints as the description shows them. `server.heartbeats` serves them before any routing; a
request that gets here spells the path differently, as with a slash at its end, and gets a 404."""

from typing import Annotated

from litestar import Router
from litestar.exceptions import NotFoundException
from litestar.params import JSONBody
from msgspec import Meta

from bullpen.liveness.schema import HeartbeatAnswer, HeartbeatRequest
from bullpen.model import limits
from bullpen.model.worker import State as WorkerState
from bullpen.schema.base import AnswerBody, RequestBody
from bullpen.schema.error import ErrorCode
from bullpen.server.heartbeats import BATCH, SINGLE
from bullpen.server.routes.responses import post


class HeartbeatBatch(RequestBody, frozen=True):
    """Beats of several workers."""

    heartbeats: Annotated[list[HeartbeatRequest], Meta(description=f"1 to {limits.BEATS:,} beats.")]


class BeatResult(AnswerBody, frozen=True, omit_defaults=True):
    """What a single beat is answered, or an error in its place."""

    token: Annotated[
        int | None, Meta(description="Token for the next beat; of an error, the token that the server has.")
    ] = None
    epoch: Annotated[int | None, Meta(description="Epoch of the worker.")] = None
    granted_lease_seconds: Annotated[float | None, Meta(description="Seconds for which the lease holds.")] = None
    next_in_seconds: Annotated[float | None, Meta(description="Seconds after which the next beat is due.")] = None
    stop: Annotated[list[str] | None, Meta(description="Ids of jobs that the worker must end.")] = None
    state: Annotated[WorkerState | None, Meta(description="State of the worker.")] = None
    resurrected: Annotated[bool | None, Meta(description="Whether the worker had been declared lost.")] = None
    code: Annotated[ErrorCode | None, Meta(description="Of an error: its kind.")] = None
    error: Annotated[str | None, Meta(description="Of an error: what is wrong.")] = None
    field: Annotated[str | None, Meta(description="Of an error: part of the request that is wrong.")] = None
    value: Annotated[str | None, Meta(description="Of an error: value that was sent there.")] = None
    allowed: Annotated[str | None, Meta(description="Of an error: what the value may be.")] = None
    remedy: Annotated[str | None, Meta(description="Of an error: what to do about it.")] = None


class BeatResults(AnswerBody, frozen=True):
    """One result for each beat, in order."""

    results: Annotated[list[BeatResult], Meta(description="One result for each beat, in order.")]


@post(SINGLE, summary="Renew a worker's lease")
async def record_heartbeat(data: JSONBody[HeartbeatRequest]) -> HeartbeatAnswer:
    """The first beat of a key carries token 0, each further one the token of the last answer. A 409 has the token that
    the server expects."""
    raise NotFoundException


@post(BATCH, summary="Renew the leases of many workers, each on its own")
async def record_heartbeats(data: JSONBody[HeartbeatBatch]) -> BeatResults:
    """Each beat gets a result of its own: a bad one fails alone."""
    raise NotFoundException


ROUTER = Router("/", route_handlers=[record_heartbeat, record_heartbeats], tags=["heartbeats"])
