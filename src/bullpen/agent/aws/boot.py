"""Fetches the agent from the table when a machine boots, or reports there why it cannot.

    boot.pyz fetch <sha256> <agent.pyz> <agent.json> <user for jobs>
    boot.pyz report <log>

It travels in user data, packed, with `told.json`: what all agents of a launch template have in common. User data is
short, so this and what it imports is the standard library and little else.
"""

from __future__ import annotations

import base64
import bz2
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile

from bullpen.agent.aws.dynamodb import DynamoDB, DynamoRefused, DynamoUnanswered
from bullpen.agent.aws.imds import Metadata, NoMetadata

T = TypeVar("T")

PATIENCE = 60.0  # seconds: a new machine's network and role may come late
RECORD_WITHIN = 120.0  # seconds: it is written once EC2 has answered
AGAIN_AFTER = 1.0  # seconds
LARGEST = 16 * 1024 * 1024  # bytes of an unpacked agent
TEXT_LIMIT = 2000  # characters of a signal's text
REMEMBERED = 7 * 24 * 3600  # seconds that a signal stays in the table

Item = dict[str, dict[str, Any]]


class BootFailed(Exception):
    """There will be no agent on this machine."""


class Boot:
    """This machine, and the table that it knows."""

    def __init__(self, told: dict[str, Any]) -> None:
        metadata = Metadata()
        self.told = told
        self.identity = persistently(metadata.identity)
        self.region = self.identity.region  # a pool and its machines are in one
        self.endpoint = os.environ.get("AWS_ENDPOINT_URL_DYNAMODB") or told["endpoint"]
        self._table = DynamoDB(self.region, metadata.credentials, self.endpoint, patience=10.0)

    def config(self, home: Path, user: str) -> dict[str, Any]:
        return {
            **self.told,
            "instance_id": self.identity.instance_id,
            "region": self.region,
            "endpoint": self.endpoint,
            "sts_endpoint": os.environ.get("AWS_ENDPOINT_URL_STS") or self.told["sts_endpoint"],
            "home": str(home),
            "runner_user": user,
            "shutdown": ["shutdown", "-h", "now"] if user else [],  # else the machine stays
        }

    def fetch(self, sha256: str) -> bytes:
        """The agent's archive with this checksum, unpacked."""
        found = persistently(lambda: self._item("Agent", sha256, consistent=False))
        if found is None:
            raise BootFailed(f"table {self.told['table']} has no agent {sha256}: run `bullpen refresh`")
        content = base64.b64decode(found["archive"]["B"])
        if hashlib.sha256(content).hexdigest() != sha256:
            raise BootFailed(
                f"the agent in table {self.told['table']} does not match its checksum {sha256}: it is not run"
            )
        return bz2.BZ2Decompressor().decompress(content, LARGEST)

    def report(self, text: str) -> None:
        """Signal UD_FAILED in the round of the record, once there is one; where agents are served, see `model.boot`."""
        now, table = time.time(), self.told["table"]
        said: Item = {
            "text": {"S": text},
            "updatedAt": {"S": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(now))},
            "ttl": {"N": str(int(now) + REMEMBERED)},
        }
        if self.told.get("serve_url"):
            item = {**key(f"BootFailure#{self._arn()}", "boot"), **said}
            persistently(lambda: self._table.call("PutItem", TableName=table, Item=item))
            return
        record = persistently(self._record, RECORD_WITHIN)
        value = {"signal": {"S": "UD_FAILED"}, "runId": record.get("runId", {"S": ""})}
        written = {"value": {"M": value}, "round": record["round"], **said}
        persistently(
            lambda: self._table.call(
                "UpdateItem",
                TableName=table,
                Key=key("WS", self.identity.instance_id),
                UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in written) + " ADD #seq :one",
                ExpressionAttributeNames={f"#{name}": name for name in (*written, "seq")},
                ExpressionAttributeValues={f":{name}": value for name, value in {**written, "one": {"N": "1"}}.items()},
            )
        )

    def _arn(self) -> str:
        partition = {"cn": "aws-cn", "us-gov": "aws-us-gov"}.get(self.region.rsplit("-", 2)[0], "aws")
        return f"arn:{partition}:ec2:{self.region}:{self.identity.account}:instance/{self.identity.instance_id}"

    def _record(self) -> Item:
        found = self._item("Instance", self.identity.instance_id, consistent=True)
        if found is None or "round" not in found:
            raise DynamoUnanswered(f"{self.identity.instance_id} has no record")
        return found

    def _item(self, kind: str, id_: str, *, consistent: bool) -> Item | None:
        table = self.told["table"]
        found = self._table.call("GetItem", TableName=table, Key=key(kind, id_), ConsistentRead=consistent)
        item: Item | None = found.get("Item")
        return item


def key(kind: str, id_: str) -> Item:
    return {"PK": {"S": f"TYPE#{kind}"}, "SK": {"S": f"ID#{id_}"}}


def persistently(ask: Callable[[], T], patience: float = PATIENCE) -> T:
    """Ask until there is an answer. Refusals are retried: a new role gets them."""
    until = time.monotonic() + patience
    while True:
        try:
            return ask()
        except (DynamoUnanswered, NoMetadata, DynamoRefused) as exc:
            if time.monotonic() >= until:
                raise BootFailed(str(exc)) from exc
            say(f"retrying in {AGAIN_AFTER:g} s: {exc}")
        time.sleep(AGAIN_AFTER)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def write(path: Path, content: bytes) -> None:
    """Whole or not at all, for the owner only."""
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.rename(path)


def last_lines(log: Path) -> str:
    """The end of the log, or that there is none: the disk may be full."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4 * TEXT_LIMIT))
            content = file.read(4 * TEXT_LIMIT)
    except OSError as exc:
        return f"the boot failed, and its log cannot be read: {exc}"
    return content.decode(errors="replace").strip()[-TEXT_LIMIT:] or "the boot failed, and its log is empty"


def main(arguments: list[str]) -> int:
    try:
        with ZipFile(sys.argv[0]) as ourselves:
            told = json.loads(ourselves.read("told.json"))
        match arguments:
            case ["fetch", sha256, agent, config, user]:
                boot = Boot(told)
                write(Path(agent), boot.fetch(sha256))
                write(Path(config), json.dumps(boot.config(Path(config).parent, user)).encode())
            case ["report", log]:
                text = last_lines(Path(log))  # before the asking below adds to it
                Boot(told).report(text)
            case _:
                raise BootFailed(f"unknown arguments: {arguments}")
    except (BootFailed, OSError, ValueError, KeyError) as exc:
        say(f"boot failed: {str(exc) or type(exc).__name__}")
        return 1
    return 0
