"""Lists: their filters, their pages, and how much one request may read."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from builders import needs, on_offer, open_provision, register, running, terminated
from bullpen.inventory import pages
from bullpen.model.signal import Heartbeat
from server.fixtures import House, a_house


async def holding(house: House, *walks: Any) -> None:
    for walk in walks:
        for change in walk:
            await house.ports.records.apply(change)


async def listed(house: House, path: str, kind: str) -> list[str]:
    """The ids of all pages."""
    found, after = [], ""
    while True:
        answer = await house.ask("GET", f"{path}&after={after}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += [one["id"] for one in page[kind]]
        if not (after := page["next"]):
            return found


async def test_instances_are_listed_by_state_class_and_run(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await holding(
            house,
            running("i-1", "a"),
            running("i-2", "b", resource_class="large"),
            on_offer("i-3"),
            terminated("i-4"),
            running("i-5", "a"),
        )
        for limit in (1, 2, 5, 100):
            path = f"/v1/instances?limit={limit}"
            assert await listed(house, path, "instances") == ["i-1", "i-2", "i-3", "i-4", "i-5"]
            assert await listed(house, f"{path}&state=running", "instances") == ["i-1", "i-2", "i-5"]
            assert await listed(house, f"{path}&state=terminated", "instances") == ["i-4"]
            assert await listed(house, f"{path}&resourceClass=large", "instances") == ["i-2"]
            assert await listed(house, f"{path}&runId=a", "instances") == ["i-1", "i-5"]
            assert await listed(house, f"{path}&runId=a&state=idle", "instances") == []
            assert await listed(house, f"{path}&state=running&resourceClass=small", "instances") == ["i-1", "i-5"]


async def test_a_filter_looks_at_a_bounded_number_of_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOKED_AT", 3)
    async with a_house(tmp_path) as house:
        await holding(house, *(on_offer(f"i-{number}") for number in range(7)), running("i-7", "a"))
        first = (await house.ask("GET", "/v1/instances?state=running&limit=2")).json()
        assert (first["instances"], first["next"]) == ([], "i-2")
        assert await listed(house, "/v1/instances?state=running&limit=2", "instances") == ["i-7"]


async def test_jobs_are_listed_by_state_in_pages(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        ids = []
        await house.ask("POST", "/v1/runs/r/provision", json={"count": 1})  # its record may not be there yet
        for index in range(5):
            asked = {"runId": "r", "command": ["true"], "index": index}
            created = await house.ask("POST", "/v1/jobs", json=asked)
            assert created.status_code == 201
            ids.append(created.json()["id"])
        answer = await house.ask("POST", f"/v1/jobs/{ids[2]}/cancel")
        assert (answer.status_code, answer.json()["result"]) == (202, "cancelled")
        whole = (await house.ask("GET", "/v1/jobs?runId=r")).json()
        assert ([one["id"] for one in whole["jobs"]], whole["next"]) == (ids, "")  # as they were submitted
        for limit in (1, 2, 5):
            path = f"/v1/jobs?runId=r&limit={limit}"
            assert sorted(await listed(house, path, "jobs")) == sorted(ids)
            assert await listed(house, f"{path}&state=finished", "jobs") == [ids[2]]
            assert sorted(await listed(house, f"{path}&state=queued", "jobs")) == sorted(set(ids) - {ids[2]})
            assert await listed(house, f"{path}&state=running", "jobs") == []


async def test_runs_are_listed_by_state_and_class_in_pages(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await holding(house, running("i-1", "b"), running("i-2", "c", resource_class="large"))
        await house.ports.records.apply(open_provision("p-a", run_id="a", needs=needs()))
        for limit in (1, 2, 100):
            path = f"/v1/runs?limit={limit}"
            assert await listed(house, path, "runs") == ["a", "b", "c"]
            assert await listed(house, f"{path}&state=provisioning", "runs") == ["a"]
            assert await listed(house, f"{path}&resourceClass=large", "runs") == ["c"]


async def test_a_run_is_known_as_soon_as_it_is_asked_for_and_while_a_record_is_left_of_it(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await house.ask("GET", "/v1/runs/r")).status_code == 404
        await house.ask("POST", "/v1/runs/r/provision", json={"count": 1})
        assert (await house.ask("GET", "/v1/runs/r")).status_code == 200
        await house.ports.records.apply(open_provision("p-old", run_id="old"))
        assert (await house.ask("GET", "/v1/runs/old")).json() == {
            "runId": "old",
            "instances": [],
            "jobs": [],
            "nextJob": "",
        }


@pytest.mark.parametrize("subject", ["i-1", "r"])
async def test_a_story_is_what_bullpen_why_prints(tmp_path: Path, subject: str) -> None:
    async with a_house(tmp_path) as house:
        await house.ports.records.apply(register("i-1", run_id="r"))
        answer = await house.ask("GET", f"/v1/stories/{subject}")
        assert (answer.status_code, answer.json()["id"]) == (200, subject)
        (story,) = answer.json()["stories"]
        assert (story["id"], [line["step"] for line in story["story"]]) == ("i-1", ["register"])


async def test_the_story_of_a_worker_is_found_by_its_key(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.beat("i-00000000000000aa/0a0b0c0d")
        answer = await house.ask("GET", "/v1/stories/i-00000000000000aa/0a0b0c0d")
        assert (answer.status_code, answer.json()["stories"][0]["state"]) == (200, "active")


async def test_only_an_instance_that_lives_is_shown_as_silent(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await holding(house, running("i-1", "a"), terminated("i-2"))
        for id in ("i-1", "i-2"):
            await house.ports.signals.beat(Heartbeat(id, datetime(2020, 1, 1, tzinfo=UTC), 1))
        for path in ("/v1/instances/i-1", "/v1/instances/i-2"):
            assert (await house.ask("GET", path)).json()["silent"] is path.endswith("i-1")
        page = (await house.ask("GET", "/v1/instances")).json()["instances"]
        assert {one["id"]: one["silent"] for one in page} == {"i-1": True, "i-2": False}
