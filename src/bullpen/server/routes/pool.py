"""Instances and the pool as a whole: questions, which change nothing."""

from typing import Annotated

from litestar import Router
from litestar.params import PathParameter, QueryParameter

from bullpen.auth.tokens import Scope
from bullpen.errors import NotFound
from bullpen.inventory import instance_page, overview, stories, views
from bullpen.liveness.silence import is_mute
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.instance import State as InstanceState
from bullpen.schema.instance import InstanceAnswer, InstanceList, instance_of, instance_of_view
from bullpen.schema.status import ServerStatus, server_status_of
from bullpen.schema.story import StoryList, story_of
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import After, InstancePath, Limit, OfClass, OfRun, check_query, stored_state
from bullpen.server.routes.responses import get

Subject = Annotated[
    str, PathParameter(description="Id of an instance, provision, job or run, key of a worker, or name of a scale set.")
]
State = Annotated[InstanceState | None, QueryParameter(name="state", description="Only instances in this state.")]


@get("/v1/status", summary="Show the pool in numbers")
async def show_status(request: Asking, context: Ctx) -> ServerStatus:
    """Counts of instances, offers, workers by failure domain, silent workers, waiting provisions, scale sets, and
    the loops of this server."""
    with context.serving(request, Scope.READ):
        found = await overview(context.ports, context.settings, await context.live(request))
    loops = {loop.name: loop.is_alive() for loop in context.service.loops}
    return server_status_of(found, loops, context.reloader)


@get("/v1/instances", summary="List the instances that are alive or whose termination is owed")
async def list_instances(
    request: Asking,
    context: Ctx,
    limit: Limit = 100,
    after: After = "",
    only: State = None,
    of_class: OfClass = "",
    run_id: OfRun = "",
) -> InstanceList:
    """Instances that are alive or whose end is owed, by id; with `runId`, the live ones of that run."""
    stored_state(only)
    with context.serving(request, Scope.READ):
        ports = context.ports
        page = await instance_page(ports, limit, after, state=only, resource_class=of_class, run_id=run_id)
        shown = [instance_of_view(one) for one in await views(ports, context.settings, page.records)]
        return InstanceList(shown, page.next)


@get("/v1/instances/{instance_id:str}", summary="Show an instance and its story")
async def show_instance(request: Asking, context: Ctx, instance_id: InstancePath) -> InstanceAnswer:
    """With the last steps of the instance, oldest first."""
    with context.serving(request, Scope.READ):
        (story, *_) = await stories(context.ports, context.settings, instance_id)
        if not isinstance(story.record, Instance) or story.record.id != instance_id:
            raise NotFound(f"{instance_id[:60]}: no such instance", remedy="GET /v1/instances lists the instances.")
        pulse = (await context.ports.signals.read([instance_id]))[instance_id]
        lives = story.record.state is not TERMINATED
        silent = lives and is_mute(context.settings, pulse.heartbeat, context.ports.clock.now())
        return instance_of(
            story.record,
            pulse,
            leaving=story.leaving,
            silent=silent,
            activity=story.activity,
            story=story.lines,
        )


@get("/v1/stories/{subject:path}", summary="Show the last steps of a record, or of all records of a run")
async def show_stories(request: Asking, context: Ctx, subject: Subject) -> StoryList:
    """Of an instance, a provision, a job or a worker, or of everything that belongs to a run: what `bullpen why
    --json` prints."""
    subject = subject.removeprefix("/")
    with context.serving(request, Scope.READ):
        found = await stories(context.ports, context.settings, subject)
        return StoryList(subject, [story_of(story) for story in found])


ROUTER = Router(
    "/",
    route_handlers=[show_status, list_instances, show_instance, show_stories],
    tags=["pool"],
    before_request=check_query,
)
