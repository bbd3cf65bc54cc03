"""The service in this process: the application on engines in memory and virtual time, and callers of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from bullpen.auth.tokens import Keys, Scope, drawn
from bullpen.config import Settings
from bullpen.controllers import Service
from bullpen.engines.memory import Faults, LoopClock, Memory, SeededChance
from bullpen.engines.memory.tokens import MemoryTokens, Shelf
from bullpen.ports import Ports, Tokens
from bullpen.server.app import ServerApp
from bullpen.server.context import Context
from bullpen.server.load_limits import Admission

INSTANCE = "i-00000000000000aa"
OTHER = "i-00000000000000bb"


@dataclass
class House:
    context: Context
    app: ServerApp
    memory: Memory
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def ports(self) -> Ports:
        return self.context.ports

    async def ask(self, method: str, path: str, token: str | None = None, **what: Any) -> httpx.Response:
        """One request; `token` is a scope, an instance's id, or any text to be sent as it is."""
        headers = dict(what.pop("headers", {}))
        if token is not None:
            headers["authorization"] = f"Bearer {self.token(token)}"
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers, **what)

    async def beat(self, key: str = "w-1", token: str | None = None, **fields: Any) -> httpx.Response:
        return await self.ask("POST", "/v1/heartbeats", token, json={"workerInstanceKey": key, **fields})

    def token(self, name: str) -> str:
        if name.startswith("i-"):
            return self.context.keys.agent_token(name, self.ports.clock.now().timestamp())
        return self.tokens.get(name, name)

    def guard(self) -> None:
        """Make a token of each scope, called like it; from here on none is served without one."""
        self.tokens = {scope.value: self.create(scope, name=scope.value) for scope in Scope}

    def create(self, scope: Scope, expires: datetime | None = None, name: str = "") -> str:
        """A token that the store has, and the service has read."""
        stored, token = drawn(scope, self.ports.clock.now(), expires, name)
        self.memory.shelf.add(stored)
        self.context.keys.learn(self.memory.shelf.book())
        return token

    async def revoke(self, name: str) -> None:
        """In the store; the service reads it as it does every second."""
        assert await self.ports.tokens.revoke(name, self.ports.clock.now())
        await self.context.keys.refresh(self.ports.clock.now().timestamp())

    async def is_untouched(self) -> bool:
        """Whether nothing at all has been written."""
        return not await self.ports.workers.listed(1) and not await self.ports.jobs.waiting_runs(1)


def keys_of(tokens: Tokens | None = None, secret: bytes = b"agents" * 8) -> Keys:
    return Keys(tokens or MemoryTokens(Shelf(), Faults()), secret)


@asynccontextmanager
async def a_house(
    home: Path, *, settings: Settings | None = None, admission: Admission | None = None, ports: Ports | None = None
) -> AsyncIterator[House]:
    memory = Memory()
    ports = replace(ports or memory.ports(LoopClock(), SeededChance()), tokens=MemoryTokens(memory.shelf, Faults()))
    settings = settings or Settings()
    context = Context(
        home, ports, settings, Service(ports, settings), keys_of(ports.tokens), admission=admission or Admission()
    )
    house = House(context, ServerApp(context), memory)
    try:
        yield house
    finally:
        await context.close()
        await house.app.heartbeats.close()
