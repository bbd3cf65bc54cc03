"""Agents that ask for passes while GitHub is slow or does not answer, or while their round changes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import httpx
import pytest

from builders import open_provision, release, running
from bullpen.config import Engines, Github, Settings
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.made_once import UNFETCHED
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.runners import GithubCI
from bullpen.engines.github.single_flight import QUIET
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import Unavailable
from bullpen.model.instance import Instance
from bullpen.ports import Ports


@dataclass
class Slow:
    """A GitHub that takes `pause` seconds for everything but the deletion of runners; `away`: it never answers."""

    pause: float = 0.0
    away: bool = False
    lasts: timedelta = timedelta(hours=1)
    made: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def answer(self, request: httpx.Request) -> httpx.Response:
        end = request.url.path.rpartition("/")[2]
        if request.method == "DELETE":
            self.deleted.append(end)
            return httpx.Response(204)
        self.made += [end] if request.method == "POST" else []
        away = self.away
        await asyncio.sleep(15 if away else self.pause)
        if away:
            raise httpx.ReadTimeout("")
        if request.method == "GET":
            return httpx.Response(200, json=[] if end == "releases" else {"total_count": 0, "runners": []})
        if self.meanwhile is not None:
            await self.meanwhile()
        if end == "registration-token":
            ends = LoopClock().now() + self.lasts
            return httpx.Response(201, json={"token": f"T{len(self.made)}", "expires_at": ends.isoformat()})
        asked = json.loads(request.content)
        labels = [{"name": name} for name in asked["labels"]]
        runner = {"id": len(self.made), "name": asked["name"], "labels": labels}
        return httpx.Response(201, json={"runner": runner, "encoded_jit_config": f"J{len(self.made)}"})


async def scene(slow: Slow, registration: str = "persistent") -> tuple[GithubClient, GithubCI, Ports, Instance]:
    """A pool whose instance i-1 serves run 4711."""
    github = Github(scope="acme/widgets", token="t", registration="jit" if registration == "jit" else "persistent")
    ports = Memory().ports(LoopClock(), SeededChance())
    hub = GithubClient(github, ports.clock, httpx.MockTransport(slow.answer))
    settings = Settings(engines=Engines(ci="github"), github=github)
    walk = running("i-1", "4711")
    await ports.records.apply(open_provision())
    for change in walk:
        await ports.records.apply(change)
    releases = Releases(hub, ports.clock)
    return hub, GithubCI(hub, settings, ports.records, ports.clock, releases), ports, walk[-1].after


async def asks(ci: GithubCI, one: Instance, patience: float = 5.0) -> str:
    """What the agent is given, if it is within its patience."""
    try:
        async with asyncio.timeout(patience):
            found = await ci.register(one.id, "4711", one.round)
    except TimeoutError:
        return "too late"
    return (found.token or found.jit) if found else "none"


@pytest.mark.parametrize("registration", ["persistent", "jit"])
async def test_a_round_that_moves_on_while_github_is_asked_gets_no_pass(registration: str) -> None:
    slow = Slow(pause=1.0)
    hub, ci, ports, one = await scene(slow, registration)
    slow.meanwhile = lambda: ports.records.apply(release(one))
    assert await asks(ci, one) == "none"
    assert slow.deleted == (["1"] if registration == "jit" else [])
    await hub.aclose()


@pytest.mark.parametrize("registration", ["persistent", "jit"])
async def test_what_takes_longer_than_an_agent_waits_is_there_when_it_asks_again(registration: str) -> None:
    slow = Slow(pause=10.0)
    hub, ci, _, one = await scene(slow, registration)
    assert await asks(ci, one) == "too late"
    assert await asks(ci, one, 6.0) == {"persistent": "T1", "jit": "J1"}[registration]
    assert len(slow.made) == 1
    await hub.aclose()


async def test_a_registration_for_one_job_is_fetched_once() -> None:
    slow = Slow(pause=1.0)
    hub, ci, _, one = await scene(slow, "jit")
    assert sorted(await asyncio.gather(asks(ci, one), asks(ci, one), asks(ci, one))) == ["J1", "J2", "J3"]
    await hub.aclose()


async def test_a_registration_that_no_agent_fetched_is_deleted() -> None:
    slow = Slow(pause=10.0)
    hub, ci, _, one = await scene(slow, "jit")
    assert await asks(ci, one) == "too late"
    await asyncio.sleep(UNFETCHED)
    slow.pause = 0.0
    await ci.registrations()
    assert slow.deleted == []
    await asyncio.sleep(10)
    await ci.registrations()
    assert slow.deleted == ["1"]
    await hub.aclose()


async def test_a_failed_attempt_fails_for_all_callers_and_is_remembered_for_some_seconds() -> None:
    slow, loop = Slow(away=True), asyncio.get_running_loop()
    hub, ci, _, one = await scene(slow)
    began = loop.time()
    passes = await asyncio.gather(*(ci.register("i-1", "4711", one.round) for _ in range(64)), return_exceptions=True)
    assert {type(end) for end in passes} == {Unavailable}
    with pytest.raises(Unavailable):
        await ci.register("i-1", "4711", one.round)
    assert (loop.time() - began, slow.made) == (15.0, ["registration-token"])
    slow.away = False
    await asyncio.sleep(QUIET)
    assert await asks(ci, one) == "T2"
    await hub.aclose()


async def test_a_token_that_still_lasts_is_handed_out_while_github_is_away() -> None:
    slow = Slow(lasts=timedelta(minutes=20))
    hub, ci, _, one = await scene(slow)
    assert await asks(ci, one) == "T1"
    slow.away = True
    await asyncio.sleep(10 * 60)
    assert await asks(ci, one, patience=0.1) == "T1"
    slow.away = False
    await asyncio.sleep(60)
    assert await asks(ci, one, patience=0.1) == "T1"
    await asyncio.sleep(1)
    assert await asks(ci, one, patience=0.1) == "T3"
    await hub.aclose()
