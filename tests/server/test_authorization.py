"""What a workflow run may ask for itself: not more labels, time or operations than it can use."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bullpen.config import Settings, Timings
from bullpen.model.progress import Tell
from bullpen.ports import Ports
from bullpen.release import ReleaseOutcome
from bullpen.server.operations import MOST_AT_ONCE, MOST_OF_A_RUN
from bullpen.server.routes import runs
from server.jobs_of_github import SETTINGS, a_hub


@pytest.mark.parametrize(
    ("label", "body", "status"),
    [
        ("4711-large", {"resourceClass": "large"}, 202),
        ("4711-1-large", {"resourceClass": "large"}, 202),
        ("4711", {"resourceClass": "large"}, 202),
        ("4711-large", {}, 403),
        ("4711-x0", {}, 403),
        ("4711-x0", {"resourceClass": "x0"}, 400),
        ("4711-LARGE", {"resourceClass": "large"}, 403),
        ("4711", {"maxRuntimeMin": 360}, 202),
        ("4711", {"maxRuntimeMin": 361}, 403),
    ],
)
async def test_a_run_cannot_name_an_unknown_class_or_hold_runners_for_days(
    tmp_path: Path, label: str, body: dict[str, Any], status: int
) -> None:
    async with a_hub(tmp_path) as hub:
        asked = {"count": 1, **body}
        answer = await hub.house.ask("POST", f"/v1/runs/{label}/provision", await hub.run_token(), json=asked)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("label", "body", "error", "remedy"),
    [
        ("4711", {"maxRuntimeMin": 361}, "maxRuntimeMin 361: with a run's token at most 360 minutes", "less"),
        ("4711-large", {}, "label 4711-large: it names class large, and resourceClass is small", "the same class"),
        ("4711-x0", {"resourceClass": "x0"}, "resourceClass 'x0': not configured; known are large, medium, small", ""),
        ("4711", {"trustDomain": "other"}, "trustDomain: the token is for", "Leave it out"),
        ("4711", {"repository": "acme/other"}, "repository: the token is for acme/widgets", "Leave it out"),
        ("5000", {}, "the token is bound to run 4711, attempt 1", "a job of that run"),
    ],
)
async def test_a_refused_run_gets_the_reason_and_a_remedy(
    tmp_path: Path, label: str, body: dict[str, Any], error: str, remedy: str
) -> None:
    async with a_hub(tmp_path) as hub:
        asked = {"count": 1, **body}
        answer = await hub.house.ask("POST", f"/v1/runs/{label}/provision", await hub.run_token(), json=asked)
        assert answer.json()["error"].startswith(error)
        assert remedy in answer.json().get("remedy", "")
        assert "scope" not in answer.text


async def test_max_runtime_of_the_settings_raises_the_limit_of_a_run(tmp_path: Path) -> None:
    async with a_hub(tmp_path, replace(SETTINGS, timings=Timings(max_runtime=12 * 3600.0))) as hub:
        asked = {"count": 1, "maxRuntimeMin": 720}
        answer = await hub.house.ask("POST", "/v1/runs/4711/provision", await hub.run_token(), json=asked)
        assert answer.status_code == 202


async def test_one_run_leaves_room_for_the_operations_of_others(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        hub.house.memory.yard.capacity = 0
        greedy, other = await hub.run_token(), await hub.run_token(run_id="5000")
        path, asked = "/v1/runs/4711/provision", {"count": 1}
        key = {"idempotency-key": "the last one"}
        for n in range(MOST_OF_A_RUN):
            headers = key if n == MOST_OF_A_RUN - 1 else {}
            assert (await hub.house.ask("POST", path, greedy, json=asked, headers=headers)).status_code == 202
        assert (await hub.house.ask("POST", path, greedy, json=asked)).status_code == 429
        assert (await hub.house.ask("POST", path, greedy, json=asked, headers=key)).status_code == 202
        for token in (greedy, other):
            run = "4711" if token is greedy else "5000"
            assert (await hub.house.ask("POST", f"/v1/runs/{run}/release", token)).status_code == 202
        assert (await hub.house.ask("POST", "/v1/runs/5000/provision", other, json=asked)).status_code == 202
        assert (await hub.house.ask("POST", path, "operate", json=asked)).status_code == 202


async def test_one_run_leaves_room_for_the_releases_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def clean_for_long(
        ports: Ports, settings: Settings, run_id: str, *, stop: asyncio.Event, tell: Tell
    ) -> ReleaseOutcome:
        await stop.wait()
        return ReleaseOutcome(run_id, (), (), (), 0.0)

    monkeypatch.setattr(runs, "release", clean_for_long)
    async with a_hub(tmp_path) as hub:
        greedy, other = await hub.run_token(), await hub.run_token(run_id="5000")
        statuses = [
            (await hub.house.ask("POST", "/v1/runs/4711/release", greedy)).status_code for _ in range(MOST_AT_ONCE)
        ]
        assert statuses == [202] * MOST_OF_A_RUN + [429] * (MOST_AT_ONCE - MOST_OF_A_RUN)
        assert (await hub.house.ask("POST", "/v1/runs/5000/release", other)).status_code == 202
