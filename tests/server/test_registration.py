"""Agents that register and leave while GitHub is slow or cannot be asked: other requests are not affected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from builders import claimed, open_provision
from bullpen.agent.store.http import REGISTRATION_PATIENCE
from bullpen.config import Agent, Engines, Github, Settings
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.runners import GithubCI
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import ConfigError
from bullpen.one_off_calls import check_ci
from bullpen.server.load_limits import MOST_AT_CI, MOST_REQUESTS
from server.fixtures import House, a_house

GITHUB = Github(scope="acme/widgets", token="t")
SETTINGS = Settings(engines=Engines(ci="github"), agent=Agent(serve_url="http://127.0.0.1:1"), github=GITHUB)
IDS = [f"i-{number:017x}" for number in range(MOST_AT_CI + 1)]


async def mute(request: httpx.Request) -> httpx.Response:
    await asyncio.sleep(15)
    raise httpx.ReadTimeout("")


@asynccontextmanager
async def on_github(
    home: Path, answer: Callable[[httpx.Request], Awaitable[httpx.Response]] = mute, github: Github = GITHUB
) -> AsyncIterator[House]:
    """A guarded service; all of IDS are claimed for run 4711."""
    settings = msgspec.structs.replace(SETTINGS, github=github)
    ports = Memory().ports(LoopClock(), SeededChance())

    async def answered(request: httpx.Request) -> httpx.Response:
        return await answer(request)

    async with aclosing(GithubClient(github, ports.clock, httpx.MockTransport(answered))) as hub:
        ci = GithubCI(hub, settings, ports.records, ports.clock, Releases(hub, ports.clock))
        await ports.records.apply(open_provision())
        for id in IDS:
            for change in claimed(id, "4711"):
                await ports.records.apply(change)
        async with a_house(home, settings=settings, ports=replace(ports, ci=ci)) as house:
            house.guard()
            yield house


async def register(house: House, id: str) -> httpx.Response:
    one = (await house.ports.records.instances([id]))[id]
    return await house.ask("PUT", f"/v1/agents/{id}/registration", id, json={"runId": "4711", "round": one.round})


async def leave(house: House, id: str) -> httpx.Response:
    return await house.ask("DELETE", f"/v1/agents/{id}/registration", id)


@pytest.mark.parametrize("ask", [register, leave])
async def test_a_github_that_does_not_answer_takes_no_place_of_other_requests(
    tmp_path: Path, ask: Callable[[House, str], Awaitable[httpx.Response]]
) -> None:
    assert MOST_AT_CI >= MOST_REQUESTS
    async with on_github(tmp_path) as house:
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting = asyncio.gather(*(ask(house, id) for id in IDS[:MOST_AT_CI]))
        await asyncio.sleep(1)
        assert (await house.ask("GET", f"/v1/agents/{IDS[-1]}/record", IDS[-1])).status_code == 200
        assert (await house.ask("POST", "/v1/runs/4712/release", "admin")).status_code == 202
        assert (await ask(house, IDS[-1])).status_code == 429
        assert {answer.status_code for answer in await waiting} == {503}
        assert loop.time() - began < REGISTRATION_PATIENCE - 1


async def test_an_unreadable_secret_is_reported_in_the_log_and_not_to_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    github = msgspec.structs.replace(GITHUB, token="file:/nowhere/token")
    with pytest.raises(ConfigError, match="/nowhere/token cannot be read"):
        await check_ci(msgspec.structs.replace(SETTINGS, github=github))
    async with on_github(tmp_path, github=github) as house:
        answer, left = await register(house, IDS[0]), await leave(house, IDS[0])
    assert (answer.status_code, answer.json()["registered"], left.status_code) == (200, False, 503)
    assert "credentials" in answer.json()["refusal"]
    assert "/nowhere" not in answer.text + left.text
    assert "/nowhere/token cannot be read" in caplog.text
