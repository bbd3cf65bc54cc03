"""Runs: their runners provisioned and released as operations that are begun here and watched.

Operators serve any run, by its label. A workflow run serves itself, and what it is trusted with its token says.
"""

import asyncio
from typing import Annotated, TypeAlias

from litestar import Router
from litestar.params import JSONBody, QueryParameter

from bullpen.auth.tokens import Operator, RunIdentity, Scope
from bullpen.config import Settings
from bullpen.errors import ConfigError, NotFound
from bullpen.inventory import job_page, run_exists, runs, views
from bullpen.model import limits
from bullpen.model.progress import Tell
from bullpen.model.provision import RunState
from bullpen.provision import Request, provision
from bullpen.release import release
from bullpen.schema.instance import instance_of_view
from bullpen.schema.job import job_of
from bullpen.schema.operation import Operation, OperationKind
from bullpen.schema.provision import ProvisionAnswer, provision_of
from bullpen.schema.release import ReleaseAnswer, release_of
from bullpen.schema.requests import ProvisionRun
from bullpen.schema.run import RunAnswer, RunPage, run_page_of
from bullpen.server.authorization import entitled
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import After, Key, Limit, OfClass, RunPath, check_query
from bullpen.server.routes.responses import get, post
from bullpen.server.shared_answers import is_of_page

GRACE = 60.0
State: TypeAlias = Annotated[RunState | None, QueryParameter(name="state", description="Only runs in this state.")]


@get("/v1/runs", summary="List the runs that the pool serves, or is asked to serve")
async def list_runs(
    request: Asking, context: Ctx, limit: Limit = 100, after: After = "", only: State = None, of_class: OfClass = ""
) -> RunPage:
    """The runs by id. A run whose runners are all back in the pool is not listed."""
    with context.serving(request, Scope.READ):
        live = context.events.live() if is_of_page(request.scope) else None
        return run_page_of(await runs(context.ports, limit, after, state=only, resource_class=of_class, live=live))


@get("/v1/runs/{run_id:str}", summary="Show a run's instances and jobs")
async def show_run(request: Asking, context: Ctx, run_id: RunPath) -> RunAnswer:
    """A run that was never asked for, or whose records are purged, is a 404."""
    with context.serving_run(request, run_id, Scope.READ):
        held = await views(context.ports, context.settings, await context.ports.records.run_instances(run_id))
        of_run = await job_page(context.ports, run_id, limits.PAGE)
        if not (held or of_run.records or context.operations.serves(run_id) or await run_exists(context.ports, run_id)):
            raise NotFound(
                f"{run_id}: no such run",
                remedy="GET /v1/runs lists the runs; a run that is over is forgotten after timings.purge.",
            )
        shown = [job_of(job) for job in of_run.records]
        return RunAnswer(run_id, [instance_of_view(one) for one in held], shown, of_run.next)


@post("/v1/runs/{run_id:str}/provision", status_code=202, summary="Get runners for a run, all or nothing")
async def provision_run(
    request: Asking, context: Ctx, run_id: RunPath, data: JSONBody[ProvisionRun], key: Key = ""
) -> Operation:
    """Begins an operation and answers at once: poll the operation, or watch the events, until it has ended. All
    runners or none, unless `allowPartial`. Called again for the same run, it adds only the missing runners."""

    async def work(stop: asyncio.Event, tell: Tell) -> ProvisionAnswer:
        return provision_of(await provision(context.ports, context.settings, asked, stop=stop, tell=tell))

    speaker = context.of_run(request, run_id, Scope.OPERATE)
    asked = request_of(context.settings, run_id, entitled(context.settings, speaker, run_id, data))
    lasts = context.settings.timings.provision + asked.wait + GRACE
    waits = asked.wait > 0
    with context.admission.work():  # only now: what can never succeed is not asked again because of load
        return context.operations.begin(
            OperationKind.PROVISION, run_id, lasts, work, key, _own(speaker), waits=waits, asked=data
        )


@post("/v1/runs/{run_id:str}/release", status_code=202, summary="Give a run's runners back")
async def release_run(request: Asking, context: Ctx, run_id: RunPath, key: Key = "") -> Operation:
    """Begins an operation and answers at once. Each runner deregisters and cleans itself, and is then on offer again
    or ended. A run without runners is no error."""

    async def work(stop: asyncio.Event, tell: Tell) -> ReleaseAnswer:
        return release_of(await release(context.ports, context.settings, run_id, stop=stop, tell=tell))

    with context.serving_run(request, run_id, Scope.OPERATE) as speaker:
        lasts = context.settings.timings.cleaning + GRACE
        return context.operations.begin(OperationKind.RELEASE, run_id, lasts, work, key, _own(speaker))


def _own(speaker: Operator | RunIdentity) -> str:
    """The workflow run that asks for itself, if one does: it may have a few operations at once."""
    return speaker.run if isinstance(speaker, RunIdentity) else ""


def request_of(settings: Settings, run_id: str, data: ProvisionRun) -> Request:
    """The request of a provision, checked. Raise ConfigError."""
    if data.count > settings.limits.max_count:
        allowed = f"at most {settings.limits.max_count} (limits.max-count)"
        remedy = "Ask for fewer, or have limits.max-count raised in the server's settings."
        text = f"count {data.count}: must be {allowed}"
        raise ConfigError(text, remedy=remedy, field="count", value=data.count, allowed=allowed)
    needs = settings.requirements(
        data.resource_class,
        data.usage_class,
        data.allowed_instance_types,
        data.cpu,
        data.mem,
        data.trust_domain or "default",
        data.repository,
    )
    runtime = settings.timings.max_runtime if data.max_runtime_min is None else 60.0 * data.max_runtime_min
    return Request(
        run_id,
        data.count,
        needs,
        max_runtime=runtime,
        allow_partial=data.allow_partial,
        spares_silent=data.spares_silent,
        wait=data.wait,
    )


ROUTER = Router(
    "/", route_handlers=[list_runs, show_run, provision_run, release_run], tags=["runs"], before_request=check_query
)
