"""Operations: provisions and releases under way, and how they ended."""

from typing import Annotated

from litestar import Router
from litestar.params import QueryParameter

from bullpen.auth.tokens import RunIdentity, Scope
from bullpen.schema.operation import Operation, OperationKind, OperationList, OperationState, ProvisionOperation
from bullpen.server.authentication import must_be_operator, must_serve_run
from bullpen.server.context import Asking, Context, Ctx
from bullpen.server.parameters import After, Limit, OfRun, OperationPath, check_query
from bullpen.server.routes.responses import delete, get

State = Annotated[OperationState | None, QueryParameter(name="state", description="Only operations in this state.")]
OfKind = Annotated[OperationKind | None, QueryParameter(name="kind", description="Only operations of this kind.")]


@get("/v1/operations", summary="List operations")
async def list_operations(
    request: Asking,
    context: Ctx,
    limit: Limit = 100,
    after: After = "",
    only: State = None,
    kind: OfKind = None,
    run_id: OfRun = "",
) -> OperationList:
    """Operations of all servers of this home, by id. The last 1,000 are kept."""

    def wanted(one: Operation) -> bool:
        return (
            (only is None or one.state is only)
            and (kind is None or (kind is OperationKind.PROVISION) is isinstance(one, ProvisionOperation))
            and (not run_id or one.run_id == run_id)
        )

    if run_id:
        context.of_run(request, run_id, Scope.READ)
    else:
        context.operator(request, Scope.READ)
    with context.admission.work():
        return context.operations.page(limit, after, wanted)


@get("/v1/operations/{operation_id:str}", summary="Show an operation")
async def show_operation(request: Asking, context: Ctx, operation_id: OperationPath) -> Operation:
    """How far it has come, or how it ended."""
    return _operation(context, request, operation_id, Scope.READ)


@delete(
    "/v1/operations/{operation_id:str}",
    status_code=202,
    summary="Ask an operation to stop, and to give back what it holds",
)
async def stop_operation(request: Asking, context: Ctx, operation_id: OperationPath) -> Operation:
    """A provision that stops before its commit gives everything back and ends as `cancelled`. One that has ended stays
    as it is."""
    return context.operations.stop(_operation(context, request, operation_id, Scope.OPERATE).id)


def _operation(context: Context, request: Asking, operation_id: str, scope: Scope) -> Operation:
    """A workflow run sees its own operations only. A caller that may see none does not learn which exist."""
    speaker = context.speaker(request)
    if not isinstance(speaker, RunIdentity):
        must_be_operator(speaker, scope)
    found = context.operations.find(operation_id)
    must_serve_run(speaker, found.run_id, scope)
    return found


ROUTER = Router(
    "/",
    route_handlers=[list_operations, show_operation, stop_operation],
    tags=["operations"],
    before_request=check_query,
)
