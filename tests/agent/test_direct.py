"""A real agent process that uses the table itself, on a machine with a fake metadata service: one life."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import bullpen
from agent.answering import answering
from agent.aws.test_imds import DOCUMENT, Machine
from bullpen.agent.aws.dynamodb import DynamoDB
from bullpen.agent.aws.interruption import SPOT
from bullpen.agent.progress import SignalKind
from bullpen.engines.aws.dynamodb import items
from bullpen.engines.aws.dynamodb.schema import table_definition
from bullpen.host.processes import end_tree, identify, mark_of
from bullpen.model import instance
from bullpen.model.instance import Instance
from bullpen.model.worker import Worker
from fakes.java_engines import Engines

pytestmark = pytest.mark.slow

AGENT = Path(bullpen.__file__).parent / "agent" / "__main__.py"
PATIENCE = 120.0  # seconds; what is waited for takes a few at most
AT = datetime(2030, 1, 1, tzinfo=UTC)


class Cloud:
    """A table, a machine, and the agent on it."""

    def __init__(self, engines: Engines, directory: Path, metadata: str) -> None:
        self.id = f"i-{secrets.token_hex(8)}"
        self.table = f"agent-{secrets.token_hex(4)}"
        self.directory = directory
        self._client = DynamoDB("eu-central-1", lambda: ("key", "secret", ""), engines.dynamodb, patience=PATIENCE)
        self._client.call("CreateTable", **table_definition(self.table))
        self.record = Instance(self.id, instance.CREATED, 1, datetime.now(UTC) + timedelta(minutes=10), round="a1")
        told = {
            "instance_id": "",
            "home": str(directory),
            "heartbeat": 0.2,
            "appears_within": 60.0,
            "max_runtime": 60.0,
            "pre_runner_script": "",
            "pre_runner_timeout": 30.0,
            "keep": [],
            "table": self.table,
            "endpoint": engines.dynamodb,
            "imds": True,
            "shutdown": ["touch", str(directory / "ended")],
        }
        (directory / "agent.json").write_text(json.dumps(told))
        for name in ("work", "home", "tmp"):
            (directory / name).mkdir()
        self._environment = {**os.environ, "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata}

    def start(self) -> None:
        with (self.directory / "agent.log").open("wb") as log:
            command = [sys.executable, "-I", "-S", str(AGENT), str(self.directory / "agent.json")]
            self.agent = subprocess.Popen(command, env=self._environment, stderr=log)

    def write(self, **changes: Any) -> None:
        self.record = replace(self.record, version=self.record.version + 1, **changes)
        item = items.key_of(Instance, self.id) | items.encode(self.record)
        self._client.call("PutItem", TableName=self.table, Item=item)

    def item(self, kind: str) -> dict[str, Any]:
        key = items.raw_key(kind, self.id)
        found = self._client.call("GetItem", TableName=self.table, Key=key, ConsistentRead=True)
        return dict(found.get("Item", {}))

    def reported(self, kind: SignalKind) -> str:
        """The text of this signal of the record's round, once it is there."""
        said: dict[str, Any] = {}

        def is_there() -> bool:
            said.update(self.item("WS"))
            value = said.get("value", {}).get("M", {}).get("signal", {}).get("S")
            return bool(value == kind and said["round"]["S"] == self.record.round)

        self.until(is_there)
        return str(said["text"]["S"])

    def worker(self) -> Worker:
        return items.decode(Worker, self.item("Heartbeat"))

    def until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < end, (self.directory / "agent.log").read_text()
            select.select([], [], [], 0.02)

    def close(self) -> None:
        self.agent.kill()
        self.agent.wait()
        end_tree(identify(self.agent.pid), mark_of(self.id), patience=10.0)
        self._client.close()


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.grants("key", 3600)
    return machine


@pytest.fixture
def cloud(engines: Engines, machine: Machine, tmp_path: Path) -> Iterator[Cloud]:
    with answering(machine.answer) as service:
        cloud = Cloud(engines, tmp_path, service.url)
        who = {"instanceId": cloud.id, "availabilityZone": "eu-1a", "region": "eu-1", "instanceType": "c7.large"}
        who["accountId"] = "123456789012"
        machine.found[DOCUMENT] = json.dumps(who)
        cloud.start()
        yield cloud
        cloud.close()


def test_a_machine_serves_is_cleaned_refuses_after_a_notice_and_ends(cloud: Cloud, machine: Machine) -> None:
    cloud.write(run_id="run-1")
    cloud.reported(SignalKind.REG_OK)
    assert cloud.item("Registration")["label"] == {"S": "run-1"}
    cloud.until(lambda: "seq" in cloud.item("Heartbeat"))
    assert (cloud.worker().domain, cloud.worker().instance_id) == ("eu-1a", cloud.id)

    cloud.write(state=instance.IDLE, run_id="", round="a2")
    cloud.reported(SignalKind.CLEAN_OK)
    assert cloud.item("Registration") == {}

    machine.found[SPOT] = json.dumps({"action": "terminate", "time": "2030-01-01T00:00:00Z"})
    cloud.until(lambda: cloud.worker().leaving == AT)
    cloud.write(state=instance.CLAIMED, run_id="run-2", round="a3")
    assert "2030-01-01" in cloud.reported(SignalKind.REG_FAILED)

    cloud.write(state=instance.TERMINATED)
    assert cloud.agent.wait(PATIENCE) == 0
    cloud.until((cloud.directory / "ended").exists)


def test_an_agent_that_stops_says_why_in_the_table(cloud: Cloud) -> None:
    cloud.write(run_id="run-1")
    cloud.reported(SignalKind.REG_OK)
    cloud.agent.terminate()
    assert cloud.agent.wait(PATIENCE) == 0
    text = cloud.reported(SignalKind.REG_FAILED)
    assert "the agent has stopped: it was asked to stop" in text
    assert "UD_REG_OK run=run-1" in text
    assert cloud.item("Registration") == {}
