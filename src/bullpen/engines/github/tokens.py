"""Tokens with which an agent registers a runner, or removes it again. GitHub makes them for an hour, for the scope."""

from typing import Literal

from bullpen.engines.github.answers import Call, moment, understood
from bullpen.engines.github.client import Hub
from bullpen.engines.github.permissions import runners
from bullpen.engines.github.token_cache import Issued


async def make_token(hub: Hub, kind: Literal["registration", "remove"]) -> Issued:
    call = Call("POST", f"{hub.scope_path}/actions/runners/{kind}-token", runners(hub.settings.scope))
    answer = await hub.ask(call)
    with understood(call):
        return Issued(str(answer.body["token"]), moment(answer.body["expires_at"]))
