"""Settings and engines of a pool on the fake GitHub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx

from bullpen.config import Agent, Engines, Github, Settings
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.runners import GithubCI
from bullpen.engines.github.scale_sets.port import GithubScaleSets
from bullpen.engines.memory import Memory
from bullpen.engines.system import SystemClock
from bullpen.ports import Clock, Ports
from fakes.github.hub import FakeGithub

SERVED = Agent(serve_url="http://127.0.0.1:8080")


class ClockAhead:
    """The real clock, put ahead at will."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return SystemClock().now() + self.ahead


def settings_of(github: FakeGithub, *, agent: Agent = SERVED, **changes: Any) -> Settings:
    """A pool with every permission on acme/widgets; `changes` are fields of the `[github]` table."""
    if "token" not in changes and "app_id" not in changes:
        changes["token"] = github.token()
    hub = Github(**{"scope": "acme/widgets", "url": github.url, "api_url": github.api_url, **changes})
    return Settings(engines=Engines(ci="github"), agent=agent, github=hub)


@asynccontextmanager
async def a_hub(github: FakeGithub, clock: Clock | None = None, **changes: Any) -> AsyncIterator[GithubClient]:
    async with aclosing(GithubClient(settings_of(github, **changes).github, clock or SystemClock())) as hub:
        yield hub


@asynccontextmanager
async def a_ci(github: FakeGithub, clock: Clock | None = None, **changes: Any) -> AsyncIterator[tuple[GithubCI, Ports]]:
    """The CI, on records in memory."""
    settings, ports, clock = settings_of(github, **changes), Memory().ports(), clock or SystemClock()
    async with aclosing(GithubClient(settings.github, clock)) as hub:
        scale_sets = GithubScaleSets(hub, clock)
        yield GithubCI(hub, settings, ports.records, clock, Releases(hub, clock), scale_sets), ports


Answering = Callable[[httpx.Request], httpx.Response] | Callable[[httpx.Request], Coroutine[Any, Any, httpx.Response]]


def scripted(answer: Answering, scope: str = "acme/widgets") -> GithubClient:
    """A GitHub that answers as told, also on virtual time."""
    return GithubClient(Github(scope=scope, token="t0ken"), SystemClock(), httpx.MockTransport(answer))
