"""Tokens with which an agent registers a runner, or removes it again. GitHub makes them for an hour, for the scope."""

from typing import Literal

from bullpen.engines.github.answers import GithubCall, moment, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.permissions import runners
from bullpen.engines.github.token_cache import Issued


async def make_token(client: GithubClient, kind: Literal["registration", "remove"]) -> Issued:
    call = GithubCall("POST", f"{client.scope_path}/actions/runners/{kind}-token", runners(client.settings.scope))
    answer = await client.ask(call)
    with understood(call):
        return Issued(str(answer.body["token"]), moment(answer.body["expires_at"]))
