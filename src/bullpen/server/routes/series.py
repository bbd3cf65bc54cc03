"""The last minutes of the pool, for charts."""

from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

from litestar import Router
from litestar.params import QueryParameter

from bullpen.auth.tokens import Scope
from bullpen.history.latencies import SeriesPoint, series
from bullpen.history.prices import price_of
from bullpen.inventory.offers import OfferSample
from bullpen.schema.base import filled, time_of
from bullpen.schema.series import ClassSeries, MarkAnswer, MinuteAnswer, SeriesAnswer
from bullpen.server.context import Asking, Context, Ctx
from bullpen.server.parameters import check_query
from bullpen.server.routes.responses import get

MINUTE = timedelta(minutes=1)
MOST_MARKS = 50
MARKS_READ = 500  # notes of what was done, of which few are troubles

Minutes = Annotated[int, QueryParameter(ge=5, le=180, description="Minutes of the range, which ends now.")]


@get("/v1/series", tags=["pool"], summary="Show the last minutes of every class")
async def show_series(request: Asking, context: Ctx, minutes: Minutes = 30) -> SeriesAnswer:
    """How long provisions waited, what they reused and launched, and what was on offer, minute by minute. Waits come
    from the history of the pool; what was on offer from the memory of the server that answers, since it began."""
    with context.serving(request, Scope.READ):
        return await _series(context, minutes)


async def _series(context: Context, minutes: int) -> SeriesAnswer:
    ports, offers = context.ports, context.service.offers
    now = ports.clock.now()
    since = now.replace(second=0, microsecond=0) - (minutes - 1) * MINUTE
    ended: defaultdict[str, dict[datetime, SeriesPoint]] = defaultdict(dict)
    for point in await series(ports, since, now):
        ended[point.resource_class][point.minute] = point
    samples = offers.between(since, now + MINUTE)
    sampled = {sample.at.replace(second=0, microsecond=0): sample for sample in samples}  # the last one of each minute
    names = dict.fromkeys([*context.settings.classes, *ended, *(name for one in samples for name in one.on_offer)])
    axis = [since + number * MINUTE for number in range(minutes)]
    price, unpriced = await _price(context)
    return SeriesAnswer(
        time_of(since) or "",
        time_of(now) or "",
        time_of(offers.since),
        [_of_class(name, axis, ended[name], sampled) for name in names],
        await _marks(context, since, now),
        price,
        unpriced,
    )


def _of_class(
    name: str, axis: list[datetime], ended: dict[datetime, SeriesPoint], sampled: dict[datetime, OfferSample]
) -> ClassSeries:
    points = []
    for at in axis:
        point = ended.get(at) or SeriesPoint(name, at, 0, 0, 0, 0, None, None)
        offered = sampled[at].on_offer.get(name, 0) if at in sampled else None
        points.append(filled(MinuteAnswer, point, at=time_of(at) or "", on_offer=offered))
    return ClassSeries(
        name,
        sum(one.provisions for one in points),
        sum(one.selected for one in points),
        sum(one.created for one in points),
        sum(one.cold_starts for one in points),
        points,
    )


async def _price(context: Context) -> tuple[float | None, int]:
    """What the live instances cost in an hour, and how many of them have no price."""
    total, priced, unpriced = Decimal(), 0, 0
    for group, count in (await context.ports.records.census()).items():
        price = price_of(context.settings, group.instance_type, group.usage_class)
        total += (price or 0) * count
        priced, unpriced = priced + count * (price is not None), unpriced + count * (price is None)
    return (float(total) if priced or not unpriced else None), unpriced


async def _marks(context: Context, since: datetime, until: datetime) -> list[MarkAnswer]:
    found = (await context.ports.history.actions(since, until, MARKS_READ)).rows
    return [filled(MarkAnswer, one) for one in found if one.trouble][:MOST_MARKS]


ROUTER = Router("/", route_handlers=[show_series], before_request=check_query)
