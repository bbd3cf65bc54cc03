"""A GitHub that is silent, slow, endless, or sends nonsense: every call ends in time, with a Bullpen error."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from bullpen.config import Engines, Github, Settings
from bullpen.engines.github import client, exchange
from bullpen.engines.github.answers import GithubCall
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.doctor import examine
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.runners import GithubCI, make_token
from bullpen.engines.github.workflows import GithubWorkflows
from bullpen.engines.memory import Memory
from bullpen.engines.system import SystemClock
from bullpen.errors import Throttled, Unavailable
from bullpen.ports import WorkflowRun
from engines.github.places import scripted

RUNNERS = GithubCall("GET", "/repos/acme/widgets/actions/runners")
SETTINGS = Settings(engines=Engines(ci="github"), github=Github(scope="acme/widgets", token="t"))
RUN = WorkflowRun("acme/widgets", "1", 1, True, "failure", "abc", "")


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(("said", "asked"), [("0", 6), ("9" * 400, 1)])
async def test_a_limit_of_no_time_is_no_loop_and_one_of_all_time_ends(said: str, asked: int) -> None:
    calls = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        return httpx.Response(429, headers={"retry-after": said}, json={"message": "slow down"})

    with pytest.raises(Throttled) as caught:
        await scripted(answer).ask(RUNNERS)
    assert len(calls) == asked
    assert 1 <= caught.value.retry_after <= 3600


async def test_an_answer_that_dribbles_is_given_up_and_frees_its_turn() -> None:
    class Dribble(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            while True:
                await asyncio.sleep(1)
                yield b" "

    hub = scripted(lambda _: httpx.Response(200, stream=Dribble()))
    began = now()
    calls = [hub.ask(RUNNERS) for _ in range(client.AT_ONCE + 1)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(end) for end in ends} == {Unavailable}
    assert now() - began <= client.WHOLE


async def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LARGEST", 1000)
    hub = scripted(lambda _: httpx.Response(200, content=b" " * 1001))
    with pytest.raises(Unavailable, match="more than 1000 bytes"):
        await hub.ask(GithubCall("POST", "/x"))


NONSENSE: list[Any] = [
    {},
    [],
    None,
    "x",
    [1],
    {"runners": None, "jobs": [None]},
    {"total_count": 1, "runners": [{}], "jobs": [{}]},
    {"token": "t", "expires_at": "2030-01-01"},
    {"resources": {"core": {}}},
    {"resources": {"core": {"limit": 1, "remaining": 1, "reset": 10**30}}},
]


@pytest.mark.parametrize("body", NONSENSE, ids=str)
async def test_an_answer_of_another_shape_is_as_good_as_none(body: Any) -> None:
    hub = scripted(lambda _: httpx.Response(200) if body is None else httpx.Response(200, json=body))
    releases, workflows = Releases(hub, SystemClock()), GithubWorkflows(hub)
    ci = GithubCI(hub, SETTINGS, Memory().ports().records, SystemClock(), releases)
    calls: list[Callable[[], Awaitable[object]]] = [
        ci.registrations,
        lambda: make_token(hub, "registration"),
        hub.rate_limits,
        lambda: workflows.run("acme/widgets", "1"),
        lambda: workflows.jobs("acme/widgets", "1", 1),
        lambda: workflows.deploying(RUN, []),
    ]
    for call in calls:
        with suppress(Unavailable):
            await call()
    assert await releases.known() == []
    assert await examine(hub, SETTINGS, releases)


async def test_a_token_in_a_file_may_be_replaced_while_the_process_runs(tmp_path: Path) -> None:
    file, shown = tmp_path / "token", []

    def answer(request: httpx.Request) -> httpx.Response:
        shown.append(request.headers["authorization"])
        return httpx.Response(200 if shown[-1].endswith("new") else 401, json={"message": "Bad credentials"})

    file.write_text("old")
    settings = Github(scope="acme/widgets", token=f"file:{file}")
    hub = GithubClient(settings, SystemClock(), httpx.MockTransport(answer))
    hub.check()
    file.write_text("new")
    for _ in range(2):
        await hub.ask(RUNNERS)
    assert shown == ["Bearer old", "Bearer new", "Bearer new"]


def paged(ids: list[int], gone: list[int], tags: list[str]) -> Callable[[httpx.Request], httpx.Response]:
    """Lists them by pages of a hundred; after each first page one of `gone` is."""

    def answer(request: httpx.Request) -> httpx.Response:
        page = int(request.url.params.get("page", "1"))
        part = [{"id": id} for id in ids[100 * (page - 1) : 100 * page]]
        more = {"link": f'<https://x/?per_page=100&page={page + 1}>; rel="next"'} if len(ids) > 100 * page else {}
        tag = f'"{page}-{len(ids)}"'
        tags.append(request.headers.get("if-none-match", ""))
        found = {"total_count": len(ids), "runners": part}
        if page == 1 and gone:
            ids.remove(gone.pop())
        if tags[-1] == tag:
            return httpx.Response(304, headers={"etag": tag})
        return httpx.Response(200, json=found, headers={"etag": tag, **more})

    return answer


@pytest.mark.parametrize("gone", [[1], [1, 2], [1, 2, 3, 4, 5]], ids=len)
async def test_no_runner_is_missed_when_pages_move_as_they_are_read(gone: list[int]) -> None:
    ids = list(range(1, 251))
    found = await scripted(paged(ids, gone, [])).listed(RUNNERS, "runners") or []
    assert {*ids} <= {one["id"] for one in found}


async def test_pages_that_have_not_changed_cost_nothing_and_are_all_turned() -> None:
    tags: list[str] = []
    hub = scripted(paged(list(range(1, 251)), [], tags))
    for _ in range(2):
        assert len(await hub.listed(RUNNERS, "runners", remembers=True) or []) == 250
    assert tags == ["", "", "", '"1-250"', '"2-250"', '"3-250"']
