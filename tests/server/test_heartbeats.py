"""Heartbeats over HTTP: one at a time, in batches, and many in one commit."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bullpen.config import Liveness, Settings
from bullpen.errors import Unavailable
from bullpen.liveness.schema import HeartbeatRequest
from bullpen.model.activity import LONGEST
from bullpen.model.worker import ACTIVE
from bullpen.server import heartbeat_batcher, heartbeats
from bullpen.server.heartbeat_batcher import Beats, HeartbeatBatcher
from bullpen.server.heartbeats import KEYS_WITHIN, MOST_KEYS, Newcomers
from bullpen.server.problems import Problem
from server.fixtures import INSTANCE, OTHER, a_house


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_first_beat_is_answered_with_all_that_the_worker_needs(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.beat(leaseSeconds=30)
        shown = answer.json()
        assert answer.status_code == 200
        assert shown | {"nextInSeconds": 10} == {
            "token": 1,
            "epoch": 1,
            "grantedLeaseSeconds": 30,
            "nextInSeconds": 10,
            "stop": [],
            "state": "active",
            "resurrected": False,
        }
        assert 9 <= shown["nextInSeconds"] <= 11


async def test_a_beat_is_stored_before_it_is_answered(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.beat()
        assert (await house.ports.workers.workers(["w-1"]))["w-1"].state is ACTIVE


async def test_a_wrong_token_is_answered_with_the_right_one_and_changes_nothing(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.beat()
        answer = await house.beat(token=None, requestId="late")
        assert answer.status_code == 409
        assert answer.json()["error"] == "token-mismatch"
        assert answer.json()["token"] == 1
        assert (await house.ports.workers.workers(["w-1"]))["w-1"].token == 1


async def test_metadata_is_kept_and_shown(tmp_path: Path) -> None:
    said = {"capabilities": ["gpu"], "buildId": "b1", "host": "h", "pid": 7, "agentVersion": "1", "extras": {"a": "b"}}
    async with a_house(tmp_path) as house:
        await house.beat(metadata=said)
        shown = (await house.ask("GET", "/v1/workers/w-1")).json()
        assert {name: shown[name] for name in said} == said


@pytest.mark.parametrize("batched", [False, True])
async def test_what_a_worker_runs_is_kept_until_a_beat_names_nothing(tmp_path: Path, batched: bool) -> None:
    async with a_house(tmp_path) as house:
        for token, activity in enumerate(("", "x" * LONGEST, "build", "")):
            beat = {"workerInstanceKey": "w-1", "token": token, **({"activity": activity} if activity else {})}
            if batched:
                await house.ask("POST", "/v1/heartbeats/batch", json={"heartbeats": [beat]})
            else:
                await house.ask("POST", "/v1/heartbeats", json=beat)
            stored = (await house.ports.workers.workers(["w-1"]))["w-1"]
            assert (stored.token, stored.activity) == (token + 1, activity)


@pytest.mark.parametrize("activity", ["x" * (LONGEST + 1), "two\nlines", 7, None])
async def test_an_activity_that_cannot_be_one_is_refused_by_name(tmp_path: Path, activity: object) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.beat(activity=activity)
        assert (answer.status_code, answer.json()["field"]) == (400, "activity")
        assert await house.is_untouched()


async def test_a_worker_of_an_instance_is_known_by_it(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.beat(f"{INSTANCE}/0a0b0c0d", token=INSTANCE)
        shown = (await house.ask("GET", f"/v1/workers/{INSTANCE}/0a0b0c0d")).json()
        assert shown["instanceId"] == INSTANCE


async def test_in_a_batch_a_bad_beat_fails_alone(tmp_path: Path) -> None:
    beats: list[Any] = [
        {"workerInstanceKey": "a"},
        {"workerInstanceKey": "b", "token": "seven"},
        {"workerInstanceKey": "c", "surprise": 1},
        17,
        {"workerInstanceKey": "d", "token": 5},
        {"workerInstanceKey": "e"},
    ]
    async with a_house(tmp_path) as house:
        answer = await house.ask("POST", "/v1/heartbeats/batch", json={"heartbeats": beats})
        results = answer.json()["results"]
        assert answer.status_code == 200
        assert [result.get("token") for result in results] == [1, None, None, None, 0, 1]
        assert [result.get("field", "") for result in results] == [
            "",
            "heartbeats[1].token",
            "heartbeats[2].surprise",
            "heartbeats[3].body",
            "",
            "",
        ]
        assert [one.id for one in await house.ports.workers.listed(10)] == ["a", "e"]


async def test_in_a_batch_a_foreign_worker_fails_alone(tmp_path: Path) -> None:
    beats = [{"workerInstanceKey": f"{INSTANCE}/1"}, {"workerInstanceKey": "i-00000000000000bb/1"}]
    async with a_house(tmp_path) as house:
        answer = await house.ask("POST", "/v1/heartbeats/batch", INSTANCE, json={"heartbeats": beats})
        assert [sorted(result)[:1] for result in answer.json()["results"]] == [["epoch"], ["code"]]
        assert [one.id for one in await house.ports.workers.listed(10)] == [f"{INSTANCE}/1"]


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_batch_has_one_to_a_thousand_beats(tmp_path: Path, count: int) -> None:
    beats = [{"workerInstanceKey": f"w-{n}"} for n in range(count)]
    async with a_house(tmp_path) as house:
        answer = await house.ask("POST", "/v1/heartbeats/batch", json={"heartbeats": beats})
        assert (answer.status_code, answer.json()["field"]) == (400, "heartbeats")
        assert await house.is_untouched()


async def test_without_tracking_a_beat_is_answered_and_not_stored(tmp_path: Path) -> None:
    settings = Settings(liveness=Liveness(tracking=False))
    async with a_house(tmp_path, settings=settings) as house:
        assert (await house.beat()).status_code == 200
        assert await house.is_untouched()


# ---- what one agent may


def keys_of(instance_id: str, count: int) -> list[dict[str, Any]]:
    return [{"workerInstanceKey": f"{instance_id}/{n}", "domain": "elsewhere"} for n in range(count)]


async def test_an_agent_begins_with_a_few_keys_an_hour_and_no_more(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        batch = {"heartbeats": keys_of(INSTANCE, 1000)}
        await house.ask("POST", "/v1/heartbeats/batch", INSTANCE, json=batch)
        assert len(await house.ports.workers.listed(1000)) == MOST_KEYS
        late = await house.beat(f"{INSTANCE}/late", token=INSTANCE)
        assert (late.status_code, late.json()["field"]) == (429, "workerInstanceKey")
        assert 0 < int(late.headers["retry-after"]) <= KEYS_WITHIN
        assert (await house.beat(f"{OTHER}/1", token=OTHER)).status_code == 200
        again = await house.beat(f"{INSTANCE}/0", token=INSTANCE)
        assert again.json()["error"] == "token-mismatch"
        await asyncio.sleep(KEYS_WITHIN)
        assert (await house.beat(f"{INSTANCE}/late", token=INSTANCE)).status_code == 200


def test_of_too_many_agents_the_longest_silent_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MOST_AGENTS", 2)
    newcomers = Newcomers(FixedClock())
    for instance_id in ("a", "b", "c"):
        for n in range(MOST_KEYS):
            newcomers.admit(instance_id, f"{instance_id}/{n}")
    newcomers.admit("a", "a/new")
    with pytest.raises(Problem):
        newcomers.admit("c", "c/new")


async def test_an_agent_does_not_choose_its_domain(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.ask("POST", "/v1/heartbeats", INSTANCE, json=keys_of(INSTANCE, 1)[0])
        await house.ask("POST", "/v1/heartbeats", json={"workerInstanceKey": "w", "domain": "elsewhere"})
        assert {one.id: one.domain for one in await house.ports.workers.listed(9)} == {
            f"{INSTANCE}/0": "",
            "w": "elsewhere",
        }


@pytest.mark.parametrize("path", ["/v1/heartbeats/", "/v1/heartbeats/batch/"])
async def test_a_heartbeat_path_with_a_slash_at_its_end_is_a_404(tmp_path: Path, path: str) -> None:
    body = {"heartbeats": [{"workerInstanceKey": "w"}]} if "batch" in path else {"workerInstanceKey": "w"}
    async with a_house(tmp_path) as house:
        assert (await house.ask("POST", path, json=body)).status_code == 404
        assert await house.is_untouched()


# ---- many in one commit


class Commits:
    """Writes a group when the test lets it."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.loads: list[bool] = []
        self.free = asyncio.Event()
        self.failure: Exception | None = None

    async def __call__(self, beats: Beats, overloaded: bool) -> list[Any]:
        self.groups.append([request.key for request, _ in beats])
        self.loads.append(overloaded)
        await self.free.wait()
        if self.failure is not None:
            raise self.failure
        return [request.key for request, _ in beats]


async def test_beats_that_arrive_during_a_commit_share_the_next() -> None:
    commits, answers = Commits(), list[Any]()
    taking = HeartbeatBatcher(commits)
    taking.submit([(HeartbeatRequest(key="a"), "")], answers.append)
    await asyncio.sleep(0.01)
    for key in ("b", "c", "d"):
        taking.submit([(HeartbeatRequest(key=key), "")], answers.append)
    commits.free.set()
    await taking.close()
    assert commits.groups == [["a"], ["b", "c", "d"]]
    assert answers == [["a"], ["b"], ["c"], ["d"]]


async def test_a_group_that_fails_answers_all_of_it_and_ends_nothing() -> None:
    commits, answers = Commits(), list[Any]()
    commits.free.set()
    taking = HeartbeatBatcher(commits)
    commits.failure = RuntimeError("secret detail")
    taking.submit([(HeartbeatRequest(key="a"), "")], answers.append)
    await taking.close()
    commits.failure = None
    taking.submit([(HeartbeatRequest(key="b"), "")], answers.append)
    await taking.close()
    assert isinstance(answers[0], Unavailable)
    assert "secret" not in str(answers[0])
    assert answers[1] == ["b"]


async def test_under_load_longer_leases_are_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_batcher, "LOADED_FROM", 2)
    commits = Commits()
    taking = HeartbeatBatcher(commits)
    for number in range(5):
        taking.submit([(HeartbeatRequest(key=f"w-{number}"), "")], lambda results: None)
    commits.free.set()
    await taking.close()
    assert commits.loads == [True]


async def test_more_beats_than_can_ever_be_written_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_batcher, "MOST_WAITING", 2)
    commits, answers = Commits(), list[Any]()
    taking = HeartbeatBatcher(commits)
    for number in range(3):
        taking.submit([(HeartbeatRequest(key=f"w-{number}"), "")], answers.append)
    commits.free.set()
    await taking.close()
    assert isinstance(answers[0], Unavailable)
    assert answers[1:] == [["w-0"], ["w-1"]]
