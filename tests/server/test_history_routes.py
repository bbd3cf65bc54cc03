"""What machines cost and what was done, over HTTP."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from builders import NOW
from bullpen.config import HistorySettings, Settings
from bullpen.model.activity_note import ActionNote
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Booking, Meter, Owner, UsageRow
from bullpen.refresh.action import Action
from server.fixtures import House, a_house

HOUR = timedelta(hours=1)


async def books(house: House, *seconds: float, kind: str = "m7g.large") -> None:
    hour = house.ports.clock.now().replace(minute=0, second=0, microsecond=0) - HOUR
    for n, spent in enumerate(seconds):
        run = (f"run-{n}", f"acme/{n}")
        row = UsageRow(hour, Owner.RUN, *run, "small", kind, UsageClass.ON_DEMAND, round(spent * 1e6))
        over = Meter(f"i-{n}", 1, NOW, Owner.RUN, 4, over=True)
        assert await house.ports.history.book([Booking(None, over, (row,))]) == [True]


async def test_cost_adds_up_by_owner_by_row_and_by_machine(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await books(house, 3600.0, 1800.5)
        shown = (await house.ask("GET", "/v1/cost?since=3h&by=run")).json()
        assert [(one["name"], one["totalSeconds"]) for one in shown["rows"]] == [("run-0", 3600.0), ("run-1", 1800.5)]
        assert shown["total"] == shown["machines"]
        assert shown["total"]["seconds"] == 5400.5 == shown["owners"]["run"]["seconds"]
        assert shown["total"]["money"] == pytest.approx(5400.5 / 3600 * 0.0816)
        assert shown["types"][0]["price"] == 0.0816
        assert shown["savedSeconds"] is None
        hours = (await house.ask("GET", "/v1/cost/hours?since=3h")).json()
        assert [(one["owner"], one["seconds"]) for one in hours["hours"]] == [("run", 5400.5)]


async def test_a_range_without_data_and_a_type_without_a_price_are_no_errors(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await books(house, 10.0, kind="x9.large")
        shown = (await house.ask("GET", "/v1/cost")).json()
        assert (shown["missingPrices"], shown["total"]) == (["x9.large"], {"seconds": 10.0, "money": 0.0})
        before = (await house.ask("GET", "/v1/cost?since=9d&until=8d")).json()
        assert (before["dataSince"], before["rows"], before["total"]["seconds"]) == (None, [], 0.0)
        house.context.settings = replace_prices(house, {"x9.large": 3.6})
        assert (await house.ask("GET", "/v1/cost")).json()["total"]["money"] == pytest.approx(0.01)


def replace_prices(house: House, prices: dict[str, float]) -> Settings:
    return msgspec.structs.replace(house.context.settings, history=HistorySettings(prices=prices))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=yesterday", "since"),
        ("since=1d&until=2d", "since"),
        ("since=2099-01-01", "since"),
        ("until=x", "until"),
        ("by=moon", "by"),
        ("sinse=7d", "sinse"),
    ],
)
async def test_a_wrong_range_is_refused_with_the_name_of_the_field(tmp_path: Path, query: str, field: str) -> None:
    async with a_house(tmp_path) as house:
        for path in ("/v1/cost", *(["/v1/cost/hours"] if "by" not in query else [])):
            answer = await house.ask("GET", f"{path}?{query}")
            assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text


async def test_the_activity_comes_in_pages_and_by_filters(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        now = house.ports.clock.now()
        by = ["serve/reap", "serve/warm", "refresh"]
        notes = [ActionNote(now, by[n % 3], "terminate", f"i-{n}", "past its <threshold>") for n in range(7)]
        await house.ports.history.note_actions([*notes, replace(notes[0], did="launch", is_done=False, trouble=True)])
        found, before = [], ""
        while True:
            page = (await house.ask("GET", f"/v1/activity?limit=3&before={before}")).json()
            found += page["actions"]
            if not (before := page["next"]):
                break
        assert [one["subject"] for one in found] == ["i-0", *(f"i-{n}" for n in range(6, -1, -1))]
        assert (found[0]["did"], found[0]["isDone"], found[0]["trouble"]) == ("launch", False, True)
        of_serve = (await house.ask("GET", "/v1/activity?by=serve&did=terminate&q=THRESHOLD")).json()["actions"]
        assert [one["by"] for one in of_serve] == [by[0], by[1], by[0], by[1], by[0]]
        assert (await house.ask("GET", "/v1/activity?q=nothing")).json() == {"actions": [], "next": ""}


@pytest.mark.parametrize("before", ["nonsense", "9" * 100, "2030|x", "%00", "a b"])
async def test_a_place_that_is_none_is_no_failure_of_the_server(tmp_path: Path, before: str) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", f"/v1/activity?before={before}")
        assert answer.status_code in (200, 400), answer.text


async def test_what_a_loop_does_is_in_the_activity(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        service = house.context.service
        service._report("reap", [Action("terminate", "i-1", "idle for 7 min"), Action("launch", "small", "no", False)])
        await service.activity.flush()
        await service.activity.flush()
        shown = (await house.ask("GET", "/v1/activity")).json()["actions"]
        assert [(one["did"], one["by"].rpartition("/")[2], one["trouble"]) for one in shown] == [
            ("launch", "reap", True),
            ("terminate", "reap", False),
        ]


async def test_what_operators_and_operations_do_is_in_the_activity(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.ask("POST", "/v1/pause", json={"resourceClass": "small", "note": "the image is broken"})
        await house.ask("POST", "/v1/resume", json={"resourceClass": "small", "dryRun": True})
        await house.ask("POST", "/v1/runs/4711/release", json={})
        await house.context.operations.close()  # it waits for those that run
        await house.context.service.activity.flush()
        shown = (await house.ask("GET", "/v1/activity")).json()["actions"]
        (released,) = [one for one in shown if one["did"] == "release"]
        assert (released["subject"], released["isDone"]) == ("4711", True)
        assert released["by"].endswith("/operations")
        by_operators = [one for one in shown if one["by"].startswith("operator/")]
        assert [(one["did"], one["subject"]) for one in by_operators] == [("pause", "class small")]
        assert by_operators[0]["reason"].startswith("the image is broken; no provision of it starts")
