"""Whether the process lives, whether it can serve, and the stream of what happens."""

from collections.abc import AsyncIterator

import litestar
from litestar import Response, Router
from litestar.openapi.datastructures import ResponseSpec
from litestar.response import Stream

from bullpen.auth.tokens import Scope
from bullpen.model.ticket import format_time
from bullpen.schema.status import AliveAnswer, ReadyAnswer
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import check_query
from bullpen.server.routes.responses import get

EVENTS = "text/event-stream"


@litestar.get("/healthz", tags=["health"], summary="Check whether the process is alive")
async def check_health() -> AliveAnswer:
    """Answers while the process is alive."""
    return AliveAnswer(alive=True)


@litestar.get(
    "/readyz",
    tags=["health"],
    summary="Check whether the server can serve",
    responses={503: ResponseSpec(ReadyAnswer, description="Not now.")},
)
async def check_readiness(context: Ctx) -> Response[ReadyAnswer]:
    """503 while the store cannot be read and written, or a loop does not run."""
    store = await context.readiness.store_works()
    ready = store and context.service.is_alive() and not context.stop.is_set()
    loops = {loop.name: loop.is_alive() for loop in context.service.loops}
    failing = {one.loop: format_time(one.since) for one in context.service.failing()}
    return Response(ReadyAnswer(ready, store, loops, failing), status_code=200 if ready else 503)


@get(
    "/v1/events",
    tags=["events"],
    summary="Stream what happens in the pool",
    media_type=EVENTS,
    before_request=check_query,
)
async def stream_events(request: Asking, context: Ctx) -> Stream:
    """Server-sent events: the current state first, then changes. The data of `instance`, `job` and `operation` is the
    object that the endpoint of that name answers. `workers` counts workers by failure domain, `silent` has the workers
    that missed their lease, as the status has them, `pauses` those that are in force, `gone` names the kind and the
    id of what is not listed any more. `leases` comes once a second at most, with the `instanceId`, `deadline`,
    `leaseSeconds` and `heartbeatAt` of every lease that was renewed; of more than 10,000 workers, of some. `ready` says
    that the current state was told, with the number of `instances` and `jobs`: what a client knew before and was not
    named since is gone. `trouble` has the reason why the store could not be read; `ready` comes again when it can. A
    client that reads too slowly is cut off and connects again."""
    context.operator(request, Scope.READ)
    with context.admission.watch():
        pass  # refused here, while an error can still be answered; counted below, for as long as the stream is read

    async def stream() -> AsyncIterator[bytes]:
        with context.admission.watch():
            async for event in context.events.stream(lambda: context.may_still(request, Scope.READ)):
                yield event

    return Stream(stream(), media_type=EVENTS, headers={"cache-control": "no-store"})


ROUTER = Router("/", route_handlers=[check_health, check_readiness, stream_events])
