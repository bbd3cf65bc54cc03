"""Metrics for Prometheus. docs/metrics.md describes every series."""

from litestar import Response, Router

from bullpen.auth.tokens import Scope
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import check_query
from bullpen.server.routes.responses import get

PATH = "/metrics"
TEXT = "text/plain; version=0.0.4"
"""The framework adds the charset. With two of them, strict readers of the header refuse the scrape."""


@get(
    PATH,
    tags=["metrics"],
    summary="Show metrics for Prometheus",
    media_type="text/plain",
    response_description="Metrics in the text format of Prometheus.",
)
async def show_metrics(request: Asking, context: Ctx) -> Response[str]:
    """In the text format of Prometheus. If the store cannot be read, the answer has `bullpen_store_up 0`, and the
    series of this server alone."""
    context.operator(request, Scope.READ)
    content = await context.metrics.answer(context.settings)
    return Response(content, media_type=TEXT, headers={"cache-control": "no-store"})


ROUTER = Router("/", route_handlers=[show_metrics], before_request=check_query)
