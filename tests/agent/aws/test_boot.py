"""How long a machine without an agent waits for its record, and what it then says. The rest: tests/engines/aws."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.aws.boot import (
    PATIENCE,
    RECORD_WITHIN,
    TEXT_LIMIT,
    Boot,
    BootFailed,
    last_lines,
    persistently,
    write,
)
from bullpen.agent.aws.dynamodb import DynamoDB, DynamoRefused, DynamoUnanswered
from bullpen.agent.aws.imds import MachineIdentity, Metadata, NoMetadata
from bullpen.model.boot import ATTRIBUTES, ITEM, failure_kind, machine_arn

TOLD = {"table": "pool", "endpoint": ""}
RECORD = {"round": {"S": "a1"}, "runId": {"S": ""}}


class Time:
    """A clock that advances only when the code sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Time:
    passing = Time()
    monkeypatch.setattr(time, "sleep", passing.sleep)
    monkeypatch.setattr(time, "monotonic", lambda: passing.now)
    monkeypatch.setattr(
        Metadata,
        "identity",
        lambda self: MachineIdentity("i-1", "eu-central-1a", "eu-central-1", "m7g.large", "123456789012"),
    )
    return passing


def answering(monkeypatch: pytest.MonkeyPatch, passing: Time, appears_at: float) -> list[dict[str, Any]]:
    """A table in which the record appears at a time; returns what is written there."""
    written: list[dict[str, Any]] = []

    def call(self: DynamoDB, operation: str, **request: Any) -> dict[str, Any]:
        if operation == "GetItem":
            assert request["ConsistentRead"]
            return {"Item": RECORD} if passing.now >= appears_at else {}
        written.append(request)
        return {}

    monkeypatch.setattr(DynamoDB, "call", call)
    return written


def test_a_failure_waits_for_the_record_whose_round_it_names(monkeypatch: pytest.MonkeyPatch, passing: Time) -> None:
    written = answering(monkeypatch, passing, appears_at=30.0)
    Boot(TOLD).report("no agent")
    [request] = written
    assert passing.now == 30.0
    assert request["Key"] == {"PK": {"S": "TYPE#WS"}, "SK": {"S": "ID#i-1"}}
    assert request["ExpressionAttributeValues"][":round"] == {"S": "a1"}
    assert request["ExpressionAttributeValues"][":text"] == {"S": "no agent"}
    assert request["UpdateExpression"].endswith("ADD #seq :one")


@pytest.mark.parametrize("region", ["eu-central-1", "cn-north-1", "us-gov-west-1"])
def test_a_served_machine_writes_its_failure_at_once_under_its_own_key(
    monkeypatch: pytest.MonkeyPatch, passing: Time, region: str
) -> None:
    """It reads no record, for its role may not, and puts nothing into the item by which the pool would be searched."""
    written = answering(monkeypatch, passing, appears_at=1e9)
    who = MachineIdentity("i-1", f"{region}a", region, "m7g.large", "123456789012")
    monkeypatch.setattr(Metadata, "identity", lambda self: who)
    Boot({**TOLD, "serve_url": "https://pool.example"}).report("no agent")
    [request] = written
    item = request["Item"]
    assert item["PK"] == {"S": f"TYPE#{failure_kind(machine_arn(region, '123456789012', 'i-1'))}"}
    assert (item["SK"], item["text"]) == ({"S": f"ID#{ITEM}"}, {"S": "no agent"})
    assert set(item) == set(ATTRIBUTES)
    assert passing.now == 0.0


def test_a_record_that_never_comes_is_not_awaited_for_ever(monkeypatch: pytest.MonkeyPatch, passing: Time) -> None:
    written = answering(monkeypatch, passing, appears_at=1e9)
    with pytest.raises(BootFailed, match="i-1 has no record"):
        Boot(TOLD).report("no agent")
    assert RECORD_WITHIN <= passing.now < RECORD_WITHIN + 5
    assert written == []


@pytest.mark.parametrize(
    "error", [DynamoUnanswered("mute"), NoMetadata("mute"), DynamoRefused("UnrecognizedClient", "mute")]
)
def test_what_may_come_late_on_a_new_machine_is_asked_for_again(passing: Time, error: Exception) -> None:
    def ask() -> str:
        if passing.now < 5:
            raise error
        return "there"

    assert persistently(ask) == "there"
    passing.now = -PATIENCE - 1
    with pytest.raises(BootFailed, match="mute"):
        persistently(ask, patience=1.0)


def test_of_a_long_log_the_end_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff" + b"x" * 10_000 + b"\nthe reason\n")
    assert last_lines(log).endswith("x\nthe reason")
    assert len(last_lines(log)) == TEXT_LIMIT


def test_a_log_that_is_missing_or_empty_is_reported_as_such(tmp_path: Path) -> None:
    assert "cannot be read" in last_lines(tmp_path / "log")
    (tmp_path / "log").touch()
    assert "is empty" in last_lines(tmp_path / "log")


def test_a_file_is_replaced_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text("old")
    path.chmod(0o644)
    (tmp_path / "agent.json.draft").write_text("left over")
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
