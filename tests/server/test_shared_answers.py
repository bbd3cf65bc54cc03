"""What many open pages ask is worked out once, and is never another caller's or an old answer where it must not be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders import running
from bullpen import inventory
from bullpen.errors import Unavailable
from bullpen.server.routes import history, pool
from bullpen.server.shared_answers import KEPT, LEAST, MOST, SHARE
from conformance.landing import land
from server.fixtures import INSTANCE, House, a_house

PAGE = {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1"}


class Counted:
    """How often the pool was looked at as a whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: float = 0.0) -> None:
        self.times = 0
        self.takes = takes
        self.fails = False

        async def counted(*asked: Any) -> Any:
            self.times += 1
            await asyncio.sleep(self.takes)
            if self.fails:
                raise Unavailable("the store is away")
            return await inventory.overview(*asked)

        monkeypatch.setattr(pool, "overview", counted)


async def ask(house: House, path: str = "/v1/status", token: str | None = None, **headers: str) -> httpx.Response:
    return await house.ask("GET", path, token, headers={**PAGE, **headers})


async def test_ten_pages_that_ask_at_once_cost_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        counted = Counted(monkeypatch, takes=0.2)
        answers = await asyncio.gather(*(ask(house) for _ in range(10)))
        assert {one.status_code for one in answers} == {200}
        assert len({one.content for one in answers}) == 1
        assert all(one.headers["bullpen-version"] for one in answers)
        assert counted.times == 1


@pytest.mark.parametrize(("takes", "kept"), [(0.0, LEAST), (0.05, 0.05 * SHARE), (3.0, MOST)])
async def test_an_answer_is_kept_for_as_long_as_it_took_many_times_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: float, kept: float
) -> None:
    async with a_house(tmp_path) as house:
        counted = Counted(monkeypatch, takes)
        await ask(house)
        await asyncio.sleep(kept - 0.1)
        await ask(house)
        assert counted.times == 1
        await asyncio.sleep(0.2)
        await ask(house)
        assert counted.times == 2


async def test_what_a_long_history_cost_is_kept_for_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        asked: list[str] = []

        async def slow(*given: Any) -> list[Any]:
            asked.append("hours")
            await asyncio.sleep(2.0)
            return []

        monkeypatch.setattr(history, "cost_hours", slow)
        for passed in (0.0, MOST + 1.0, 2.0 * SHARE - MOST - 10.0):
            await asyncio.sleep(passed)
            assert (await ask(house, "/v1/cost/hours?since=30d")).status_code == 200
        assert len(asked) == 1
        await asyncio.sleep(20.0)
        await ask(house, "/v1/cost/hours?since=30d")
        assert len(asked) == 2


async def test_other_parameters_are_another_question(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await land(house.ports.records, running("i-1"))
        assert [one["id"] for one in (await ask(house, "/v1/runs?limit=1")).json()["runs"]] == ["run-1"]
        assert (await ask(house, "/v1/runs?limit=1&after=run-1")).json()["runs"] == []


async def test_a_program_always_gets_an_answer_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        counted = Counted(monkeypatch)
        await ask(house)
        for headers in ({}, {"sec-fetch-site": "none"}, {"origin": "http://127.0.0.1"}):
            assert (await house.ask("GET", "/v1/status", headers=headers)).status_code == 200
        assert counted.times == 4


async def test_what_a_page_changes_is_shown_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        counted = Counted(monkeypatch)
        await ask(house)
        assert (await house.ask("POST", "/v1/runs/r/release", headers=PAGE)).status_code == 202
        await ask(house)
        assert counted.times == 2


async def test_an_answer_that_ends_after_a_change_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        counted = Counted(monkeypatch, takes=1.0)
        asking = asyncio.create_task(ask(house))
        await asyncio.sleep(0.5)
        await house.ask("POST", "/v1/runs/r/release", headers=PAGE)
        await asking
        await ask(house)
        assert counted.times == 2


async def test_a_question_after_a_change_does_not_join_an_answer_that_was_begun_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        counted = Counted(monkeypatch, takes=1.0)
        asking = asyncio.create_task(ask(house))
        await asyncio.sleep(0.5)
        await house.ask("POST", "/v1/runs/r/release", headers=PAGE)
        second = asyncio.create_task(ask(house))  # while the first is still worked out
        await asyncio.sleep(0.1)
        assert counted.times == 2
        await asking
        await second
        await ask(house)
        assert counted.times == 2


async def test_every_caller_is_admitted_before_an_answer_is_shared(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert (await ask(house, token="read")).status_code == 200
        assert (await ask(house)).status_code == 401
        assert (await ask(house, token="wrong")).status_code == 401
        assert (await ask(house, token=INSTANCE)).status_code == 403
        await house.revoke("read")
        assert (await ask(house, token="read")).status_code == 401


async def test_an_error_is_shared_with_those_that_waited_for_it_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        counted = Counted(monkeypatch, takes=0.2)
        counted.fails = True
        answers = await asyncio.gather(*(ask(house) for _ in range(5)))
        assert {one.status_code for one in answers} == {503}
        counted.fails = False
        assert (await ask(house)).status_code == 200
        assert counted.times == 2


async def test_a_caller_that_goes_leaves_the_others_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        counted = Counted(monkeypatch, takes=1.0)
        first = asyncio.create_task(ask(house))
        await asyncio.sleep(0.5)
        second = asyncio.create_task(ask(house))
        await asyncio.sleep(0.1)
        first.cancel()
        assert (await second).status_code == 200
        assert counted.times == 2


async def test_answers_with_many_parameters_take_bounded_room(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for number in range(KEPT + 10):
            assert (await ask(house, f"/v1/runs?limit={number + 1}")).status_code == 200
        assert len(house.app._rest._kept) == KEPT


async def test_a_page_is_shown_the_instances_that_its_stream_shows_without_another_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        await land(house.ports.records, running("i-1"))
        reads: list[int] = []
        live = house.ports.records.live

        async def counted(limit: int, after: str = "") -> Any:
            reads.append(limit)
            return await live(limit, after)

        monkeypatch.setattr(house.ports.records, "live", counted)
        stream = house.context.events.stream(lambda: True)
        await anext(stream)
        await anext(stream)
        of_page, of_program = await ask(house), await house.ask("GET", "/v1/status")
        assert of_page.json()["counts"] == of_program.json()["counts"] == {"small": {"running": 1}}
        assert len(reads) == 1
        assert [one["id"] for one in (await ask(house, "/v1/runs")).json()["runs"]] == ["run-1"]
        await stream.aclose()
        await asyncio.sleep(MOST + 5)  # nothing is read any more
        assert (await ask(house)).json()["counts"] == {"small": {"running": 1}}
        assert len(reads) == 2


async def test_a_page_is_told_the_time_of_the_server(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await ask(house)).headers["date"].endswith("GMT")
        assert "date" not in (await house.ask("GET", "/v1/status")).headers
