"""Instances and the pool as a whole: questions, which change nothing."""

from typing import Annotated

from litestar import Router
from litestar.params import FromPath, QueryParameter

from bullpen.auth.tokens import Scope
from bullpen.errors import NotFound
from bullpen.inventory import every_live, overview, stories, views
from bullpen.model import limits
from bullpen.model.instance import Instance
from bullpen.schema.instance import InstanceAnswer, InstanceList, instance_of, instance_of_view
from bullpen.schema.status import ServerStatus, server_status_of
from bullpen.server.context import Asking, Ctx
from bullpen.server.routes.responses import get

Limit = Annotated[int, QueryParameter(ge=1, le=limits.PAGE, description="At most so many.")]
After = Annotated[str, QueryParameter(max_length=limits.KEY_LENGTH, description="`next` of the page before.")]


@get("/v1/status", summary="Counts, pools, workers by domain, and whether losses are held back")
async def status(request: Asking, context: Ctx) -> ServerStatus:
    with context.serving(request, Scope.READ):
        found = await overview(context.ports, context.settings, await every_live(context.ports))
    loops = {loop.name: loop.is_alive() for loop in context.service.loops}
    return server_status_of(found, loops, context.reloader)


@get("/v1/instances", summary="List the instances that are alive or whose termination is owed")
async def list_instances(request: Asking, context: Ctx, limit: Limit = 100, after: After = "") -> InstanceList:
    with context.serving(request, Scope.READ):
        page = await context.ports.records.live(limit, after)
        shown = [instance_of_view(one) for one in await views(context.ports, context.settings, page)]
        return InstanceList(shown, page[-1].id if len(page) == limit else "")


@get("/v1/instances/{instance_id:str}", summary="An instance and its story")
async def show_instance(request: Asking, context: Ctx, instance_id: FromPath[str]) -> InstanceAnswer:
    with context.serving(request, Scope.READ):
        (story, *_) = await stories(context.ports, context.settings, instance_id)
        if not isinstance(story.record, Instance) or story.record.id != instance_id:
            raise NotFound(f"{instance_id[:60]}: no such instance")
        pulse = (await context.ports.signals.read([instance_id]))[instance_id]
        return instance_of(story.record, pulse, leaving=story.leaving, activity=story.activity, story=story.lines)


ROUTER = Router("/", route_handlers=[status, list_instances, show_instance], tags=["pool"])
