"""Workers: the list, one in detail, and a worker's own report that it has stopped."""

from typing import Annotated

from litestar import Router
from litestar.params import QueryParameter

from bullpen.auth.tokens import RunIdentity, Scope
from bullpen.errors import NotFound
from bullpen.inventory import roster
from bullpen.liveness import stopping
from bullpen.model import limits
from bullpen.model.worker import Card, Code, Rejected
from bullpen.schema.worker import WorkerAnswer, WorkerFilter, WorkerList, WorkerStopped, worker_of, workers_of
from bullpen.server.authentication import forbidden, may_beat
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import After, Limit, WorkerPath, check_query
from bullpen.server.problems import of_rejection
from bullpen.server.routes.responses import delete, get

State = Annotated[
    WorkerFilter | None,
    QueryParameter(
        name="state",
        description="Only these. suspect: active, and the lease is out. A page may then hold fewer.",
    ),
]
Last = Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="As the last accepted beat was answered.")]

REMEDY = {
    Code.MISMATCH: "Send the token and the epoch of the last answer to a beat; a later process may have the key now.",
    Code.CLEANED_UP: "It is cleaned up already: nothing is left to do.",
    Code.UNKNOWN: "No such worker is known (any more): nothing is left to do.",
}


@get("/v1/workers", summary="List workers and what they report of themselves, without tombstones")
async def list_workers(
    request: Asking, context: Ctx, limit: Limit = 100, after: After = "", only: State = None
) -> WorkerList:
    """Workers by key, with what they report about themselves."""
    context.operator(request, Scope.READ)
    with context.admission.work():
        return workers_of(await roster(context.ports, limit, after, only or ""))


@get("/v1/workers/{key:path}", summary="Show a worker: its lease, what it reports of itself, and its story")
async def show_worker(request: Asking, context: Ctx, key: WorkerPath) -> WorkerAnswer:
    """With the last steps of the worker, oldest first."""
    key = key.removeprefix("/")
    with context.serving(request, Scope.READ):
        found = (await context.ports.workers.workers([key])).get(key)
        if found is None:
            raise NotFound(f"{key[:60]}: no such worker", remedy="GET /v1/workers lists the workers.")
        card = (await context.ports.workers.cards([key])).get(key, Card())
        story = (await context.ports.records.stories([key])).get(key, [])
        return worker_of(found, card, story)


@delete("/v1/workers/{key:path}", summary="Report that a worker has stopped: its jobs go to others")
async def stop_worker(request: Asking, context: Ctx, key: WorkerPath, token: Last, epoch: Last) -> WorkerStopped:
    """A worker that stops normally reports it once none of its jobs runs any more. It is cleaned up at once, and
    others may take its jobs."""
    key = key.removeprefix("/")
    speaker = context.speaker(request)
    if isinstance(speaker, RunIdentity) or not may_beat(speaker, key):
        raise forbidden("the token is not valid for this worker")
    with context.admission.work():
        stopped = await stopping.stop_worker(context.ports, context.settings, key, token=token, epoch=epoch)
    if isinstance(stopped, Rejected):
        raise of_rejection(stopped, REMEDY)
    return WorkerStopped(key, stopped.worker.state, list(stopped.given_back))


ROUTER = Router(
    "/", route_handlers=[list_workers, show_worker, stop_worker], tags=["workers"], before_request=check_query
)
