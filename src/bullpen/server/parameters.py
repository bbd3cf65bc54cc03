"""Parameters that several endpoints have, and a refusal of those that an endpoint does not have, which are usually
misspelt ones."""

from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import Annotated, get_args

from litestar.handlers import BaseRouteHandler
from litestar.params import HeaderParameter, ParameterKwarg, PathParameter, QueryParameter

from bullpen.model import limits
from bullpen.model.instance import State as InstanceState
from bullpen.model.job import State as JobState
from bullpen.server.context import Asking
from bullpen.server.problems import bad_input, shown

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
        near = get_close_matches(name, known, 1) or [one for one in known if name.lower() in one.lower()]
        raise bad_input(
            f"{shown(name)}: no such parameter",
            shown(name),
            value,
            f"one of {', '.join(known)}" if known else "no parameters",
            remedy=f"Did you mean {near[0]}?" if near else "Leave it out.",
        )


def spoken_of(handler: BaseRouteHandler | None, name: str) -> tuple[str, str]:
    """What a client calls the parameter that a route calls `name`, and the values that it may have, if it is an enum;
    empty for no parameter."""
    field = handler.parsed_fn_signature.parameters.get(name) if handler else None
    if field is None or not isinstance(definition := field.kwarg_definition, ParameterKwarg):
        return "", ""
    enums = [kind for kind in get_args(field.annotation) if isinstance(kind, type) and issubclass(kind, StrEnum)]
    values = [one.value for kind in enums for one in kind if one.value != "absent"]
    return definition.name or name, f"one of {', '.join(values)}" if values else ""


@cache
def _parameters(handler: BaseRouteHandler) -> tuple[str, ...]:
    """The names of a route's query parameters, in its order."""
    return tuple(
        definition.name or field.name
        for field in handler.parsed_fn_signature.parameters.values()
        if isinstance(definition := field.kwarg_definition, QueryParameter)
    )
