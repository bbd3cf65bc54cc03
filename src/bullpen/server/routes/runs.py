"""Runs: their runners provisioned and released as operations that are begun here and watched.

Operators serve any run, by its label. A workflow run serves itself, and what it is trusted with its token says.
"""

import asyncio
from typing import Annotated, TypeAlias

from litestar import Router
from litestar.params import FromPath, HeaderParameter, JSONBody

from bullpen import jobs
from bullpen.auth.tokens import Operator, RunIdentity, Scope
from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.inventory import views
from bullpen.model import limits
from bullpen.model.progress import Tell
from bullpen.provision import Request, provision
from bullpen.release import release
from bullpen.schema.instance import instance_of_view
from bullpen.schema.job import job_of
from bullpen.schema.operation import Operation, OperationKind
from bullpen.schema.provision import ProvisionAnswer, provision_of
from bullpen.schema.release import ReleaseAnswer, release_of
from bullpen.schema.requests import ProvisionRun
from bullpen.schema.run import RunAnswer
from bullpen.server.authentication import must_be_operator, must_serve_run
from bullpen.server.authorization import entitled
from bullpen.server.context import Asking, Context, Ctx
from bullpen.server.routes.responses import delete, get, post

GRACE = 60.0
Key: TypeAlias = Annotated[
    str,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=limits.IDEMPOTENCY_KEY_LENGTH,
        description="Of this request: a caller without an answer sends it again with the same key, and it starts once.",
    ),
]


@get("/v1/runs/{run_id:str}", summary="A run's instances and jobs")
async def show_run(request: Asking, context: Ctx, run_id: FromPath[str]) -> RunAnswer:
    with context.serving_run(request, run_id, Scope.READ):
        held = await views(context.ports, context.settings, await context.ports.records.run_instances(run_id))
        of_run = await jobs.of_run(context.ports, run_id)
        return RunAnswer(run_id, [instance_of_view(one) for one in held], [job_of(job) for job in of_run])


@post("/v1/runs/{run_id:str}/provision", status_code=202, summary="Get runners for a run, all or nothing")
async def provision_run(
    request: Asking, context: Ctx, run_id: FromPath[str], data: JSONBody[ProvisionRun], key: Key = ""
) -> Operation:
    async def work(stop: asyncio.Event, tell: Tell) -> ProvisionAnswer:
        return provision_of(await provision(context.ports, context.settings, asked, stop=stop, tell=tell))

    speaker = context.of_run(request, run_id, Scope.OPERATE)
    asked = _request(context.settings, run_id, entitled(context.settings, speaker, run_id, data))
    lasts = context.settings.timings.provision + asked.wait + GRACE
    waits = asked.wait > 0
    with context.admission.work():  # only now: what can never succeed is not asked again because of load
        return context.operations.begin(OperationKind.PROVISION, run_id, lasts, work, key, _own(speaker), waits=waits)


@post("/v1/runs/{run_id:str}/release", status_code=202, summary="Give a run's runners back")
async def release_run(request: Asking, context: Ctx, run_id: FromPath[str], key: Key = "") -> Operation:
    async def work(stop: asyncio.Event, tell: Tell) -> ReleaseAnswer:
        return release_of(await release(context.ports, context.settings, run_id, stop=stop, tell=tell))

    with context.serving_run(request, run_id, Scope.OPERATE) as speaker:
        lasts = context.settings.timings.cleaning + GRACE
        return context.operations.begin(OperationKind.RELEASE, run_id, lasts, work, key, _own(speaker))


@get("/v1/operations/{operation_id:str}", summary="Show an operation")
async def show_operation(request: Asking, context: Ctx, operation_id: FromPath[str]) -> Operation:
    return _operation(context, request, operation_id, Scope.READ)


@delete(
    "/v1/operations/{operation_id:str}",
    status_code=202,
    summary="Ask an operation to stop, and to give back what it holds",
)
async def stop_operation(request: Asking, context: Ctx, operation_id: FromPath[str]) -> Operation:
    return context.operations.stop(_operation(context, request, operation_id, Scope.OPERATE).id)


def _own(speaker: Operator | RunIdentity) -> str:
    """The workflow run that asks for itself, if one does: it may have a few operations at once."""
    return speaker.run if isinstance(speaker, RunIdentity) else ""


def _operation(context: Context, request: Asking, operation_id: str, scope: Scope) -> Operation:
    """A workflow run sees its own operations only. A caller that may see none does not learn which exist."""
    speaker = context.speaker(request)
    if not isinstance(speaker, RunIdentity):
        must_be_operator(speaker, scope)
    found = context.operations.find(operation_id)
    must_serve_run(speaker, found.run_id, scope)
    return found


def _request(settings: Settings, run_id: str, data: ProvisionRun) -> Request:
    if data.count > settings.limits.max_count:
        allowed = f"at most {settings.limits.max_count} (limits.max-count)"
        raise ConfigError(f"count {data.count}: must be {allowed}", field="count")
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
    return Request(run_id, data.count, needs, max_runtime=runtime, allow_partial=data.allow_partial, wait=data.wait)


ROUTER = Router(
    "/", route_handlers=[show_run, provision_run, release_run, show_operation, stop_operation], tags=["runs"]
)
