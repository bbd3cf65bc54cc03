"""How the pool is kept: the loops of this server, and what is owed, held back or paused."""

import asyncio
from datetime import datetime, timedelta

from litestar import Router

from bullpen.auth.tokens import Scope
from bullpen.background_loop import Loop
from bullpen.liveness.protection import protection_state
from bullpen.schema.base import filled, time_of
from bullpen.schema.control import (
    ControlsAnswer,
    LoopAnswer,
    LoopTurnAnswer,
    ReplicaAnswer,
    StoreAnswer,
    StoreKind,
    owed_of,
)
from bullpen.schema.pause import pauses_of
from bullpen.schema.status import ControlAnswer, RateLimitAnswer
from bullpen.server.context import Asking, Context, Ctx
from bullpen.server.parameters import check_query
from bullpen.server.routes.responses import get

MOST_DEBTS = 200
SOON = timedelta(hours=1)


@get("/v1/control", tags=["pool"], summary="Show how the pool is kept")
async def show_control(request: Asking, context: Ctx) -> ControlsAnswer:
    """The loops of the server that answers with their last 60 turns, what records owe, whether losses are held back,
    pauses, what GitHub still allows, when it refuses the pool's runner, the store, and the servers on it."""
    with context.serving(request, Scope.READ):
        return await _control(context)


async def _control(context: Context) -> ControlsAnswer:
    ports, service = context.ports, context.service
    now, clock = ports.clock.now(), asyncio.get_running_loop().time()
    instances = await ports.records.owing_instances(now + SOON, MOST_DEBTS + 1)
    provisions = await ports.records.due_provisions(now + SOON, MOST_DEBTS + 1)  # open ones owe nothing, and fall out
    debts = owed_of([*instances, *provisions], service.debts_put_off())
    debts.sort(key=lambda one: one.due_at)
    protection = await protection_state(ports)
    failing = {one.loop for one in service.failing()}
    return ControlsAnswer(
        loops=[_loop_of(one, service.process, now, clock, is_failing=one.name in failing) for one in service.loops],
        debts=debts[:MOST_DEBTS],
        more_debts=len(debts) > MOST_DEBTS,
        hold=protection.why if protection.held_since else "",
        protection=[filled(ControlAnswer, one, name=one.id) for one in (await ports.workers.controls()).values()],
        pauses=pauses_of(await ports.records.pauses()),
        rate_limits=[filled(RateLimitAnswer, one) for _, one in sorted(ports.traffic.limits().items())],
        runner_version=await context.runner_versions.soonest_refused(context.settings),
        store=StoreAnswer(
            await context.readiness.store_works(),
            StoreKind.SQLITE if context.settings.engines.pool == "embedded" else StoreKind.DYNAMODB,
        ),
        replicas=[ReplicaAnswer(one.process, time_of(one.seen_at) or "") for one in await ports.health.services(now)],
    )


def _loop_of(loop: Loop, process: str, now: datetime, clock: float, *, is_failing: bool) -> LoopAnswer:
    """`clock` is the time of the event loop, by which turns are noted."""
    turns = [
        LoopTurnAnswer(time_of(now - timedelta(seconds=clock - one.began)) or "", round(one.seconds, 6), one.works)
        for one in loop.turns
    ]
    last = turns[-1] if turns else None
    return LoopAnswer(
        process,
        loop.name,
        loop.every,
        loop.is_alive(),
        last.at if last else None,
        last.seconds if last else None,
        turns,
        is_failing,
        loop.error,
    )


ROUTER = Router("/", route_handlers=[show_control], before_request=check_query)
