"""The service in this process: the application on engines in memory and virtual time, and callers of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bullpen.config import Settings
from bullpen.engines.keys import Keys, Scope
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.ports import Ports
from bullpen.service import Service
from bullpen.web.admission import Admission
from bullpen.web.app import App
from bullpen.web.context import Context

INSTANCE = "i-00000000000000aa"
OTHER = "i-00000000000000bb"


@dataclass
class House:
    context: Context
    app: App
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
        """Make a token of each scope; from here on nobody is served without one."""
        self.tokens = {scope.value: self.context.keys.create(scope, None) for scope in Scope}

    async def is_untouched(self) -> bool:
        """Whether nothing at all has been written."""
        return not await self.ports.workers.listed(1) and not await self.ports.jobs.waiting_runs(1)


@asynccontextmanager
async def a_house(
    home: Path, *, settings: Settings | None = None, admission: Admission | None = None, ports: Ports | None = None
) -> AsyncIterator[House]:
    memory = Memory()
    ports = ports or memory.ports(LoopClock(), SeededChance())
    settings = settings or Settings()
    context = Context(home, ports, settings, Service(ports, settings), Keys(home), admission=admission or Admission())
    house = House(context, App(context), memory)
    try:
        yield house
    finally:
        await context.close()
        await house.app.heartbeats.close()
