"""Query parameters: those that lists share, and a refusal of those that an endpoint does not have, which are usually
misspelt ones."""

from difflib import get_close_matches
from functools import cache
from typing import Annotated

from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from bullpen.model import limits
from bullpen.model.instance import State as InstanceState
from bullpen.model.job import State as JobState
from bullpen.server.context import Asking
from bullpen.server.problems import bad_input, shown

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


@cache
def _parameters(handler: BaseRouteHandler) -> tuple[str, ...]:
    """The names of a route's query parameters, in its order."""
    return tuple(
        definition.name or field.name
        for field in handler.parsed_fn_signature.parameters.values()
        if isinstance(definition := field.kwarg_definition, QueryParameter)
    )
