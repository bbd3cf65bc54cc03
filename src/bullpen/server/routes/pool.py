"""Instances and the pool as a whole: questions, which change nothing."""

from typing import Annotated

from litestar.params import FromPath, QueryParameter

from bullpen.auth.tokens import Scope
from bullpen.errors import NotFound
from bullpen.inventory import every_live, pools, stories
from bullpen.model.instance import Instance
from bullpen.server.context import Asking, Ctx
from bullpen.server.routes.responses import get
from bullpen.server.schema import DomainAnswer, InstanceAnswer, InstanceList, PoolAnswer, SettingsAnswer, StatusAnswer
from bullpen.server.views import of_control, of_failing, of_instance
from bullpen.settings.reloading import Reloader

Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="At most so many.")]
After = Annotated[str, QueryParameter(max_length=128, description="`next` of the page before.")]


@get("/v1/status", tags=["pool"], summary="Counts, pools, workers by domain, and whether losses are held back")
async def status(request: Asking, context: Ctx) -> StatusAnswer:
    context.operator(request, Scope.READ)
    ports = context.ports
    with context.admission.work():
        instances: dict[str, dict[str, int]] = {}
        for (name, state), count in (await ports.records.count()).items():
            instances.setdefault(name, {})[state.value] = count
        domains: dict[str, dict[str, int]] = {}
        for (domain, state_name), count in (await ports.workers.census()).items():
            domains.setdefault(domain, {})[state_name] = count
        offers = await pools(ports, context.settings, await every_live(ports))
        controls = await ports.workers.controls()
        failing = await ports.health.noted(ports.clock.now())
    return StatusAnswer(
        instances=instances,
        pools=[PoolAnswer(one.resource_class, one.tickets, one.claimable) for one in offers],
        workers=[DomainAnswer(name, of.get("active", 0), of.get("inactive", 0)) for name, of in domains.items()],
        controls=[of_control(control) for control in controls.values()],
        loops={loop.name: loop.is_alive() for loop in context.service.loops},
        failing=[of_failing(one) for one in failing],
        settings=_settings_of(context.reloader),
    )


def _settings_of(reloader: Reloader | None) -> SettingsAnswer:
    if reloader is None:
        return SettingsAnswer()
    return SettingsAnswer(reloader.file, reloader.restart_needed, reloader.refused)


@get("/v1/instances", tags=["pool"], summary="Instances that live or whose end is owed, by id")
async def list_instances(request: Asking, context: Ctx, limit: Limit = 100, after: After = "") -> InstanceList:
    context.operator(request, Scope.READ)
    with context.admission.work():
        page = await context.ports.records.live(limit, after)
        pulses = await context.ports.signals.read([one.id for one in page])
        shown = [of_instance(one, pulses[one.id]) for one in page]
        return InstanceList(shown, page[-1].id if len(page) == limit else "")


@get("/v1/instances/{instance_id:str}", tags=["pool"], summary="An instance and its story")
async def show_instance(request: Asking, context: Ctx, instance_id: FromPath[str]) -> InstanceAnswer:
    context.operator(request, Scope.READ)
    with context.admission.work():
        (story, *_) = await stories(context.ports, context.settings, instance_id)
        if not isinstance(story.record, Instance) or story.record.id != instance_id:
            raise NotFound(f"{instance_id[:60]}: no such instance")
        pulse = (await context.ports.signals.read([instance_id]))[instance_id]
        return of_instance(story.record, pulse, story.lines)


HANDLERS = (status, list_instances, show_instance)
