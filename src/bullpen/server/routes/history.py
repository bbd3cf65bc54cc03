"""What machines cost, whose it was, and what was done and why: questions about the past, which change nothing."""

import re
from datetime import timedelta
from typing import Annotated

from litestar import Router
from litestar.params import QueryParameter

from bullpen.auth.tokens import Scope
from bullpen.errors import ConfigError
from bullpen.history.cost import CostKey, cost, cost_hours, whole_hours
from bullpen.history.ranges import range_between
from bullpen.model.activity_note import NOTE_LENGTH
from bullpen.schema.activity import ActivityList, action_of
from bullpen.schema.cost import ROWS, CostAnswer, HourCostList, cost_answer_of, hour_costs_of
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import Limit, check_query
from bullpen.server.routes.responses import get

AHEAD = timedelta(minutes=1)
"""Of the clocks of other processes: what they note now must not be hidden."""

PLACE = r"[0-9A-Za-z:.#|T-]{0,120}"  # where a page begins, in any store
RANGE = "a number with m, h, d or w, such as 7d, or a time in UTC"
Since = Annotated[str, QueryParameter(max_length=40, description=f"Beginning of the range: {RANGE}.")]
Until = Annotated[str, QueryParameter(max_length=40, description=f"End of the range: {RANGE}; empty: now.")]
By = Annotated[CostKey, QueryParameter(description="What the rows are.")]
Before = Annotated[
    str, QueryParameter(max_length=120, description="`next` of the page before; without it, the newest actions.")
]
ByProcess = Annotated[
    str,
    QueryParameter(
        name="by", max_length=NOTE_LENGTH, description="Only what this process did, or this controller of it."
    ),
]
Did = Annotated[str, QueryParameter(max_length=NOTE_LENGTH, description="Only this action, such as `terminate`.")]
Containing = Annotated[
    str, QueryParameter(name="q", max_length=NOTE_LENGTH, description="Only actions with this text; case is ignored.")
]


@get("/v1/cost", summary="Show what machines cost, and whose it was")
async def show_cost(
    request: Asking, context: Ctx, since: Since = "7d", until: Until = "", by: By = CostKey.REPOSITORY
) -> CostAnswer:
    """Of the hours that the range touches: by owner, by repository, class or run, and by type of machine. Every
    second of a machine belongs to one owner, so each of the three adds up to the total."""
    with context.serving(request, Scope.READ):
        first, last = range_between(since, until, context.ports.clock.now())
        return cost_answer_of(await cost(context.ports, context.settings, first, last, by, ROWS))


@get("/v1/cost/hours", summary="Show what machines cost by the hour")
async def list_cost_hours(request: Asking, context: Ctx, since: Since = "7d", until: Until = "") -> HourCostList:
    """The seconds and the money of each owner in each hour, the oldest hour first."""
    with context.serving(request, Scope.READ):
        first, last = range_between(since, until, context.ports.clock.now())
        found = await cost_hours(context.ports, context.settings, first, last)
        begins, ends = whole_hours(first, last)
        return hour_costs_of(found, begins, min(ends, context.ports.clock.now()))


@get("/v1/activity", summary="List what was done and why, the newest first")
async def list_activity(
    request: Asking,
    context: Ctx,
    limit: Limit = 100,
    before: Before = "",
    by: ByProcess = "",
    did: Did = "",
    containing: Containing = "",
) -> ActivityList:
    """The actions of refresh, of the loops of servers and of operators, each with its reason."""
    if not re.fullmatch(PLACE, before):
        raise ConfigError("before: must be `next` of an earlier page", field="before", value=before, allowed="`next`")
    with context.serving(request, Scope.READ):
        now = context.ports.clock.now()
        since = now - timedelta(days=context.settings.history.keep)
        page = await context.ports.history.actions(
            since, now + AHEAD, limit, before, by=by, did=did, containing=containing
        )
        return ActivityList([action_of(note) for note in page.rows], page.next)


ROUTER = Router(
    "/", route_handlers=[show_cost, list_cost_hours, list_activity], tags=["history"], before_request=check_query
)
