"""Parameters that several endpoints have, and a refusal of those that an endpoint does not have, which are usually
misspelt ones."""

from functools import cache
from typing import Annotated, get_args

from litestar.handlers import BaseRouteHandler
from litestar.params import HeaderParameter, ParameterKwarg, PathParameter, QueryParameter

from bullpen.model import limits
from bullpen.model.instance import State as InstanceState
from bullpen.model.job import State as JobState
from bullpen.server.context import Asking
from bullpen.server.mistakes import allowed_by, unknown, wrong
from bullpen.server.problems import Problem, bad_input

RunPath = Annotated[str, PathParameter(description="Id of the run. A slash in it is sent as %2F.")]
JobPath = Annotated[str, PathParameter(description="Id of the job.")]
InstancePath = Annotated[str, PathParameter(description="Id of the instance.")]
WorkerPath = Annotated[str, PathParameter(description="Key of the worker. It may have slashes.")]
OperationPath = Annotated[str, PathParameter(description="Id of the operation.")]
Limit = Annotated[int, QueryParameter(ge=1, le=limits.PAGE, description="Entries of the page, at most.")]
After = Annotated[
    str,
    QueryParameter(
        max_length=limits.RUN_ID_LENGTH, description="`next` of the page before; without it, the first page."
    ),
]
OfRun = Annotated[
    str, QueryParameter(name="runId", max_length=limits.RUN_ID_LENGTH, description="Only what belongs to this run.")
]
OfClass = Annotated[
    str,
    QueryParameter(
        name="resourceClass", max_length=limits.CLASS_NAME_LENGTH, description="Only what is of this resource class."
    ),
]
KEY = "Idempotency-Key"
Key = Annotated[
    str,
    HeaderParameter(
        name=KEY,
        max_length=limits.IDEMPOTENCY_KEY_LENGTH,
        description="Key of this request. If no answer arrives, repeat it with the same key; the server carries it out"
        " once.",
    ),
]


def stored_state(state: InstanceState | JobState | None) -> None:
    """Raise a 400 for the state that no stored record has."""
    if state in (InstanceState.ABSENT, JobState.ABSENT):
        raise bad_input("state: no record has it", "state", state, f"one of {', '.join([*type(state)][1:])}")


async def check_query(request: Asking) -> None:
    """Raise a 400 that names the first unknown parameter, and the known one that it looks like."""
    if not request.scope["query_string"]:
        return
    known = _parameters(request.route_handler)
    for name, value in request.query_params.multi_items():
        if name in known:
            continue
        raise unknown(name, name, list(known), value, "parameter")


def parameter_problem(request: Asking, name: str, is_missing: bool) -> Problem | None:
    """What is wrong with the parameter that a route, or a client, calls `name`; None if there is no such one."""
    for field in request.route_handler.parsed_fn_signature.parameters.values():
        definition = field.kwarg_definition
        if not isinstance(definition, ParameterKwarg) or name not in (field.name, definition.name):
            continue
        own = definition.name or field.name
        kinds = [one for one in get_args(field.annotation) if one is not type(None)] if field.is_optional else []
        bounds = {bound: getattr(definition, bound) for bound in ("ge", "le", "min_length", "max_length")}
        kind = kinds[0] if kinds else field.annotation
        allowed = allowed_by(kind, **bounds)
        if is_missing:
            return bad_input(f"{own}: is missing: must be {allowed}", own, allowed=allowed)
        given = request.headers if isinstance(definition, HeaderParameter) else request.query_params
        return wrong(own, given.get(own, ""), allowed)
    return None


@cache
def _parameters(handler: BaseRouteHandler) -> tuple[str, ...]:
    """The names of a route's query parameters, in its order."""
    return tuple(
        definition.name or field.name
        for field in handler.parsed_fn_signature.parameters.values()
        if isinstance(definition := field.kwarg_definition, QueryParameter)
    )
