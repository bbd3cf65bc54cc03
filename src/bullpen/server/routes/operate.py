"""What operators order: pause, resume, drain and rotate; and the pauses in force."""

from litestar import Router
from litestar.params import JSONBody

from bullpen import operate
from bullpen.auth.tokens import Operator, Scope
from bullpen.schema.pause import (
    DrainInstances,
    OperateAnswer,
    PauseList,
    PausePool,
    ResumePool,
    RotatePool,
    operate_of,
    pauses_of,
)
from bullpen.server.authentication import OPEN
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import check_query
from bullpen.server.routes.responses import get, post


@get("/v1/pauses", summary="List the pauses in force")
async def list_pauses(request: Asking, context: Ctx) -> PauseList:
    """Who paused a resource class, or the whole pool, since when and why."""
    with context.serving(request, Scope.READ):
        return PauseList(pauses_of(await context.ports.records.pauses()))


@post("/v1/pause", summary="Start nothing new in a class, or in the whole pool")
async def pause_pool(request: Asking, context: Ctx, data: JSONBody[PausePool]) -> OperateAnswer:
    """No provision of it starts, and nothing is launched or kept warm for it, until it is resumed. Runs, releases and
    cleaning go on. A further pause changes the note."""
    with context.serving(request, Scope.OPERATE) as operator:
        return operate_of(
            await operate.pause(
                context.ports,
                context.settings,
                data.resource_class,
                data.note,
                operator=_name_of(operator),
                dry_run=data.dry_run,
            )
        )


@post("/v1/resume", summary="End the pause of a class, or of the whole pool")
async def resume_pool(request: Asking, context: Ctx, data: JSONBody[ResumePool]) -> OperateAnswer:
    """Provisions that wait for it begin. What is not paused stays as it is; `pause` is the one that is still in force,
    if one is."""
    with context.serving(request, Scope.OPERATE) as operator:
        return operate_of(
            await operate.resume(
                context.ports,
                context.settings,
                data.resource_class,
                operator=_name_of(operator),
                dry_run=data.dry_run,
            )
        )


@post("/v1/drain", summary="Let instances take no new run, and end them once they are free")
async def drain_instances(request: Asking, context: Ctx, data: JSONBody[DrainInstances]) -> OperateAnswer:
    """An instance on offer is ended at once, a busy one when its run has given it back. With `resourceClass`, the class
    is paused as well."""
    with context.serving(request, Scope.OPERATE) as operator:
        return operate_of(
            await operate.drain(
                context.ports,
                context.settings,
                data.instances,
                data.resource_class,
                data.note,
                operator=_name_of(operator),
                dry_run=data.dry_run,
            )
        )


@post("/v1/rotate", summary="Replace every instance of a class, or of the whole pool")
async def rotate_pool(request: Asking, context: Ctx, data: JSONBody[RotatePool]) -> OperateAnswer:
    """Idle instances are replaced a share at a time, so that the idle target is kept; busy ones leave after their run.
    The servers of the pool go on with it."""
    with context.serving(request, Scope.OPERATE) as operator:
        return operate_of(
            await operate.rotate(
                context.ports,
                context.settings,
                data.resource_class,
                operator=_name_of(operator),
                dry_run=data.dry_run,
            )
        )


def _name_of(operator: Operator) -> str:
    """Of a server without tokens the caller has no name."""
    return "an operator" if operator == OPEN else operator.id


ROUTER = Router(
    "/",
    route_handlers=[list_pauses, pause_pool, resume_pool, drain_instances, rotate_pool],
    tags=["operate"],
    before_request=check_query,
)
