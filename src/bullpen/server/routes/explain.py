"""Explanations: why something waits, what a provision would do, and everything that waits. They change nothing."""

from typing import Annotated

from litestar import Router
from litestar.params import JSONBody, PathParameter

from bullpen.auth.tokens import Scope
from bullpen.explain import why
from bullpen.explain.plan import plan
from bullpen.explain.queue import queue
from bullpen.schema.plan import PlanAnswer, PlanRun, plan_of
from bullpen.schema.queue import QueueAnswer, queue_of
from bullpen.schema.why import WhyAnswer, why_of
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import check_query
from bullpen.server.routes.responses import get, post
from bullpen.server.routes.runs import request_of

WhySubject = Annotated[
    str,
    PathParameter(
        description="Id of an instance, provision, job or run, key of a worker, name of a scale set, or the URL of a"
        " workflow run or of one of its jobs. A slash in it is sent as %2F."
    ),
]


@get("/v1/why/{subject:path}", summary="Explain why something waits, and where its time went")
async def explain_subject(request: Asking, context: Ctx, subject: WhySubject) -> WhyAnswer:
    """While it waits: one cause of a closed list, what happens next, and the instances that could serve it with the
    rule that refuses each. Afterwards: the seconds of each stage of its provision. The last steps of its records stand
    below."""
    with context.serving(request, Scope.READ):
        return why_of(await why(context.ports, context.settings, subject.removeprefix("/")))


@post("/v1/plan", summary="Show what a provision would do now")
async def plan_provision(request: Asking, context: Ctx, data: JSONBody[PlanRun]) -> PlanAnswer:
    """Which instances it would claim and why not the others, what it would launch, the price, and how full the caps
    would be. It claims, launches and reserves nothing."""
    with context.serving(request, Scope.READ):
        asked = request_of(context.settings, data.run_id, data)
        return plan_of(await plan(context.ports, context.settings, asked))


@get("/v1/queue", summary="List everything that waits, and how long provisions took")
async def show_queue(request: Asking, context: Ctx) -> QueueAnswer:
    """The longest wait first, each with its cause; how long the provisions of the last 24 hours took, by resource class
    and repository."""
    with context.serving(request, Scope.READ):
        unmatched = context.service.sets.unmatched()
        return queue_of(await queue(context.ports, context.settings, unmatched))


ROUTER = Router(
    "/",
    route_handlers=[explain_subject, plan_provision, show_queue],
    tags=["waits"],
    before_request=check_query,
)
