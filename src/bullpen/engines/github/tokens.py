"""Tokens with which an agent registers a runner, or removes it again. GitHub makes them for an hour, for the scope."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from bullpen.engines.github.answers import Call
from bullpen.engines.github.client import Hub
from bullpen.engines.github.rights import runners
from bullpen.ports import Clock

MARGIN = timedelta(minutes=5)  # an agent that is handed one has this long to use it


@dataclass(frozen=True, slots=True)
class Token:
    value: str = field(repr=False)
    expires: datetime


async def make_token(hub: Hub, kind: Literal["registration", "remove"]) -> Token:
    path = f"{hub.scope_path}/actions/runners/{kind}-token"
    answer = await hub.ask(Call("POST", path, runners(hub.settings.scope)))
    return Token(str(answer.body["token"]), datetime.fromisoformat(answer.body["expires_at"]))


class RegistrationToken:
    """One for all agents that ask within its time."""

    def __init__(self, hub: Hub, clock: Clock) -> None:
        self._hub = hub
        self._clock = clock
        self._turn = asyncio.Lock()
        self._token: Token | None = None

    async def value(self) -> str:
        async with self._turn:  # of many agents at once one makes it
            if self._token is None or self._clock.now() >= self._token.expires - MARGIN:
                self._token = await make_token(self._hub, "registration")
            return self._token.value
