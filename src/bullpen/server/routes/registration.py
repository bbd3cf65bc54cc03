"""How an agent registers with the CI and deregisters. The answer may need GitHub, and the server bounds that wait.

An agent hangs up after six seconds. The server answers before that, so that no registration is sent to an agent that is
gone; what takes GitHub longer goes on, and is there when the agent asks again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Annotated

from litestar import Router
from litestar.params import JSONBody, QueryParameter

from bullpen.errors import ConfigError, Conflict, Refused, Unavailable
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.scale_set import set_of_run_id
from bullpen.model.served_set import ServedSet
from bullpen.pool.set_instances import give_back_mismatched
from bullpen.ports import RegistrationCredentials, Removal
from bullpen.schema.agent import RegistrationAnswer, ServedRepository, ServedSetAnswer
from bullpen.schema.requests import RegisterRunner
from bullpen.server.authentication import forbidden
from bullpen.server.context import Asking, Context, Ctx
from bullpen.server.parameters import InstancePath
from bullpen.server.problems import shown
from bullpen.server.routes.responses import delete, put
from bullpen.structured_log import get_logger

PATIENCE = 4.5  # seconds for GitHub; `agent.store.http` waits six for the server
TOO_OLD = "this agent is too old to judge the jobs of a scale set; its instance is replaced"
UNUSABLE = "the server cannot use its credentials for GitHub; see its log"

Runner = Annotated[str, QueryParameter(max_length=64, description="As whom the CI knows it; empty: as the instance.")]

log = get_logger("bullpen.server")


@put("/v1/agents/{instance_id:str}/registration", summary="Register with the CI under the run's label")
async def register_runner(
    request: Asking, context: Ctx, instance_id: InstancePath, data: JSONBody[RegisterRunner]
) -> RegistrationAnswer:
    """Registers the runner, or answers with what the agent needs to register it."""
    context.check_agent(request, instance_id)
    if data.refused_job:
        # An operator must act: jobs of that repository, or of that event, keep failing until a setting changes.
        refused = shown(data.refused_job, REASON_LENGTH)  # whole: its end names the setting
        log.error("job of a scale set refused", instance=instance_id, run=data.run_id, refusal=refused)
    is_set = set_of_run_id(data.run_id) is not None
    if is_set and not data.knows_sets:
        return RegistrationAnswer(False, refusal=f"{data.run_id}: {TOO_OLD}")
    try:
        async with _asking_ci(context):
            found = await context.ports.ci.register(instance_id, data.run_id, data.round)
    except (Refused, ConfigError) as exc:
        if is_set:
            # The CI refuses the pool's credentials or the set, and would refuse every other machine as well: this one
            # is not to blame, and its agent asks again in a moment. The CI's engine has logged it.
            return RegistrationAnswer(False)
        if isinstance(exc, ConfigError):
            log.error("runner not registered", instance=instance_id, error=exc)
            return RegistrationAnswer(False, refusal=UNUSABLE)
        # An answer, not an error: the agent reports the reason to the waiting provision instead of trying again.
        return RegistrationAnswer(False, refusal=f"{exc}; {exc.remedy}" if exc.remedy else str(exc))
    if found is None and is_set:
        await give_back_mismatched(context.ports, context.settings, instance_id, data.round)
    if found is None or not (found.token or found.jit):
        return RegistrationAnswer(found is not None)
    return _answer(found)


@delete("/v1/agents/{instance_id:str}/registration", summary="Deregister from the CI")
async def deregister_runner(
    request: Asking, context: Ctx, instance_id: InstancePath, runner: Runner = ""
) -> RegistrationAnswer:
    """A runner that runs a job is not removed: 409."""
    context.check_agent(request, instance_id)
    if runner and context.ports.ci.instance_of(runner) != instance_id:
        raise forbidden(f"runner {shown(runner)!r} is not a registration of {instance_id}")
    try:
        async with _asking_ci(context):
            removal = await context.ports.ci.remove(runner or instance_id)
    except ConfigError as exc:
        log.error("runner not deregistered", instance=instance_id, error=exc)
        raise Unavailable(UNUSABLE) from exc
    if removal is Removal.BUSY:
        raise Conflict(f"{instance_id} runs a job: it is deregistered only when the job has ended")
    return RegistrationAnswer(False)


def _answer(given: RegistrationCredentials) -> RegistrationAnswer:
    copied = {one.name: getattr(given, one.name) for one in fields(given)}
    return RegistrationAnswer(True, **copied | {"serves": _served(given.serves) if given.serves else None})


def _served(one: ServedSet) -> ServedSetAnswer:
    known = tuple(ServedRepository(repository.name, repository.id) for repository in one.repositories)
    return ServedSetAnswer(one.name, one.events, known)


@asynccontextmanager
async def _asking_ci(context: Context) -> AsyncIterator[None]:
    """A place to ask the CI from. Raise a 429 if there is none, Unavailable if it takes GitHub too long."""
    if not context.settings.on_github:
        with context.admission.work():
            yield
        return
    with context.admission.ask_ci():
        try:
            async with asyncio.timeout(PATIENCE):
                yield
        except TimeoutError as exc:
            raise Unavailable(f"GitHub has not answered within {PATIENCE:g} s") from exc


ROUTER = Router("/", route_handlers=[register_runner, deregister_runner], tags=["agents"])
