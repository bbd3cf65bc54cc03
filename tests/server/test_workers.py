"""Workers over HTTP: listed with what they say of themselves, shown with their story, and stopped by their own word."""

from pathlib import Path
from typing import Any

import pytest

from server.fixtures import INSTANCE, OTHER, House, a_house
from server.test_routes import WORKER, a_job, a_running_instance, agents

CARD = {"capabilities": ["gpu"], "buildId": "b1", "host": "h", "pid": 7, "agentVersion": "1", "extras": {"a": "b"}}


def stopped(key: str, token: int = 1, epoch: int = 1) -> str:
    return f"/v1/workers/{key}?token={token}&epoch={epoch}"


async def listed(house: House, query: str = "") -> dict[str, Any]:
    answer = await house.ask("GET", f"/v1/workers{query}")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


# ---- listed


async def test_the_list_shows_what_each_worker_says_of_itself(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.beat("a", metadata=CARD)
        await house.beat("b")
        said, silent = (await listed(house))["workers"]
        assert {name: said[name] for name in CARD} == CARD
        assert (silent["buildId"], silent["capabilities"], silent["extras"]) == ("", [], {})


async def test_the_list_costs_two_requests_however_many_workers_there_are(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for number in range(9):
            await house.beat(f"w-{number}", metadata=CARD)
        requests = house.ports.records._faults.requests  # type: ignore[attr-defined]
        requests.clear()
        await listed(house)
        assert requests == {"workers.listed": 1, "workers.cards": 1}


async def test_the_list_comes_in_pages_that_a_cursor_joins(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for number in range(5):
            await house.beat(f"w-{number}", metadata=CARD)
        seen, after = [], ""
        for _ in range(3):
            page = await listed(house, f"?limit=2&after={after}")
            seen += [one["key"] for one in page["workers"]]
            after = page["next"]
        assert seen == [f"w-{number}" for number in range(5)]
        assert after == ""


async def test_the_list_may_be_of_one_state(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for key in ("a", "b", "c"):
            await house.beat(key)
        assert [one["key"] for one in (await listed(house, "?state=active&limit=2"))["workers"]] == ["a", "b"]
        assert (await listed(house, "?state=active&limit=2"))["next"] == "b"
        assert (await listed(house, "?state=inactive"))["workers"] == []
        assert (await listed(house, "?state=suspect"))["workers"] == []
        answer = await house.ask("GET", "/v1/workers?state=dead")
        assert (answer.status_code, answer.json()["field"]) == (400, "state")
        assert answer.json()["allowed"] == "one of active, inactive, suspect"


# ---- shown


async def test_a_worker_is_shown_with_its_story(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.beat("w-1", metadata=CARD)
        shown = (await house.ask("GET", "/v1/workers/w-1")).json()
        (line,) = shown["story"]
        assert (line["step"], line["state"], line["by"]) == ("register", "active", "heartbeat")
        assert shown["buildId"] == "b1"
        await house.ask("DELETE", stopped("w-1"))
        over = (await house.ask("GET", "/v1/workers/w-1")).json()
        assert [line["step"] for line in over["story"]] == ["register", "stop", "settle_cleaned_up"]
        assert (over["state"], over["buildId"]) == ("cleaned-up", "")


# ---- stopped


async def test_the_job_of_a_worker_that_reports_its_stop_is_free_at_once(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        record = await a_running_instance(house)
        job = await a_job(house)
        asked = {"workerInstanceKey": WORKER, "round": record.round}
        await house.ask("POST", agents("jobs/take"), INSTANCE, json=asked)
        answer = await house.ask("DELETE", stopped(WORKER), INSTANCE)
        assert answer.status_code == 200
        assert answer.json() == {"key": WORKER, "state": "cleaned-up", "givenBack": [job["id"]]}
        assert (await house.ask("GET", f"/v1/jobs/{job['id']}")).json()["state"] == "queued"
        again = await house.ask("DELETE", stopped(WORKER), INSTANCE)
        assert (again.status_code, again.json()["givenBack"]) == (200, [])
        assert (await house.beat(WORKER, token=INSTANCE)).status_code == 410


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        (stopped("w-1", token=7), 409, "token-mismatch"),
        (stopped("w-1", epoch=2), 409, "token-mismatch"),
        (stopped("unknown"), 404, "unknown-worker"),
    ],
)
async def test_a_stop_of_an_unknown_worker_or_with_another_token_or_epoch_is_refused(
    tmp_path: Path, path: str, status: int, error: str
) -> None:
    async with a_house(tmp_path) as house:
        await house.beat("w-1")
        answer = await house.ask("DELETE", path)
        assert (answer.status_code, answer.json()["error"]) == (status, error)
        assert answer.json()["remedy"]
        assert (await listed(house))["workers"][0]["state"] == "active"


@pytest.mark.parametrize("query", ["", "?token=1", "?epoch=1", "?token=-1&epoch=1", "?token=x&epoch=1"])
async def test_a_stop_needs_token_and_epoch(tmp_path: Path, query: str) -> None:
    async with a_house(tmp_path) as house:
        await house.beat("w-1")
        answer = await house.ask("DELETE", f"/v1/workers/w-1{query}")
        assert (answer.status_code, answer.json()["field"] in ("token", "epoch")) == (400, True)
        assert (await listed(house))["workers"][0]["state"] == "active"


async def test_only_a_caller_that_may_beat_for_a_worker_may_stop_it(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        await house.beat(WORKER, token=INSTANCE)
        for token, status in ((None, 401), (OTHER, 403), ("read", 403), (INSTANCE, 200)):
            assert (await house.ask("DELETE", stopped(WORKER), token)).status_code == status
        await house.beat("external", token="operate")
        assert (await house.ask("DELETE", stopped("external"), INSTANCE)).status_code == 403
        assert (await house.ask("DELETE", stopped("external"), "operate")).status_code == 200
