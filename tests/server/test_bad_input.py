"""What cannot be meant: a 4xx that names the field, and nothing written."""

import sys
from pathlib import Path
from typing import Any

import pytest

from server.fixtures import INSTANCE, a_house

BEAT = "/v1/heartbeats"
DEEP = b'{"workerInstanceKey":' + b"[" * 200_00 + b"]" * 200_00 + b"}"
# From Python 3.14 on the size of the stack counts, not a depth: this is read, and is no field of a job.
TOO_DEEP = "body" if sys.version_info < (3, 14) else "workerInstanceKey"

BODIES: list[tuple[str, str, Any, str]] = [
    # what, path, body, field
    ("nothing", BEAT, b"", "body"),
    ("no JSON", BEAT, b"{", "body"),
    ("not UTF-8", BEAT, b'{"workerInstanceKey":"\xff"}', "body"),
    ("nested deeply", BEAT, DEEP, "workerInstanceKey"),
    ("a list", BEAT, [], "body"),
    ("no key", BEAT, {}, "workerInstanceKey"),
    ("an empty key", BEAT, {"workerInstanceKey": ""}, "workerInstanceKey"),
    ("a long key", BEAT, {"workerInstanceKey": "x" * 129}, "workerInstanceKey"),
    ("a key with a space", BEAT, {"workerInstanceKey": "a b"}, "workerInstanceKey"),
    ("a key with a control character", BEAT, {"workerInstanceKey": "a\x01b"}, "workerInstanceKey"),
    ("the key of a scale set", BEAT, {"workerInstanceKey": "set:medium"}, "workerInstanceKey"),
    ("the key of a session", BEAT, {"workerInstanceKey": "session:medium"}, "workerInstanceKey"),
    ("a number as key", BEAT, {"workerInstanceKey": 7}, "workerInstanceKey"),
    ("a text as token", BEAT, {"workerInstanceKey": "w", "token": "7"}, "token"),
    ("a negative token", BEAT, {"workerInstanceKey": "w", "token": -1}, "token"),
    ("true as token", BEAT, {"workerInstanceKey": "w", "token": True}, "token"),
    ("a huge token", BEAT, {"workerInstanceKey": "w", "token": 2**70}, "token"),
    ("a negative lease", BEAT, {"workerInstanceKey": "w", "leaseSeconds": -1}, "leaseSeconds"),
    ("a broken lease", BEAT, {"workerInstanceKey": "w", "leaseSeconds": 1.5}, "leaseSeconds"),
    ("no number as lease", BEAT, b'{"workerInstanceKey":"w","leaseSeconds":NaN}', "body"),
    ("an unknown field", BEAT, {"workerInstanceKey": "w", "lease": 1}, "lease"),
    ("unknown metadata", BEAT, {"workerInstanceKey": "w", "metadata": {"x": 1}}, "metadata"),
    ("huge extras", BEAT, {"workerInstanceKey": "w", "metadata": {"extras": {"a": "b" * 1025}}}, "metadata.extras"),
    ("a job without fence", BEAT, {"workerInstanceKey": "w", "boundActivities": [{"jobId": "j"}]}, "boundActivities"),
    ("fence 0", BEAT, {"workerInstanceKey": "w", "boundActivities": [{"jobId": "j", "fence": 0}]}, "boundActivities"),
    ("no batch", "/v1/heartbeats/batch", {"beats": []}, "beats"),
    ("a batch of text", "/v1/heartbeats/batch", {"heartbeats": "x"}, "heartbeats"),
    ("no command", "/v1/jobs", {"runId": "r"}, "command"),
    ("an empty command", "/v1/jobs", {"runId": "r", "command": []}, "command"),
    ("a text as command", "/v1/jobs", {"runId": "r", "command": "ls"}, "command"),
    ("an empty word first", "/v1/jobs", {"runId": "r", "command": [""]}, "command"),
    ("a NUL", "/v1/jobs", {"runId": "r", "command": ["a\0"]}, "command"),
    ("a run id with a space", "/v1/jobs", {"runId": "r r", "command": ["a"]}, "runId"),
    ("the run id of a scale set", "/v1/jobs", {"runId": "set:medium", "command": ["a"]}, "runId"),
    ("a provision for a scale set", "/v1/runs/set:medium/provision", {"count": 1}, "runId"),
    ("an unknown field of a job", "/v1/jobs", {"runId": "r", "command": ["a"], "priority": 1}, "priority"),
    ("a negative timeout", "/v1/jobs", {"runId": "r", "command": ["a"], "timeoutSeconds": -1}, "timeoutSeconds"),
    ("no JSON as job", "/v1/jobs", b"{", "body"),
    ("a job nested deeply", "/v1/jobs", DEEP, TOO_DEEP),
    ("none", "/v1/runs/r/provision", {"count": 0}, "count"),
    ("too many", "/v1/runs/r/provision", {"count": 501}, "count"),
    ("an unknown class", "/v1/runs/r/provision", {"count": 1, "resourceClass": "huge"}, "resourceClass"),
    ("an unknown usage", "/v1/runs/r/provision", {"count": 1, "usageClass": "stolen"}, "usageClass"),
    ("a bad pattern", "/v1/runs/r/provision", {"count": 1, "allowedInstanceTypes": ["a b"]}, "allowedInstanceTypes"),
]


@pytest.mark.parametrize(("path", "body", "field"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
async def test_a_bad_body_is_refused_by_name_and_writes_nothing(
    tmp_path: Path, path: str, body: Any, field: str
) -> None:
    async with a_house(tmp_path) as house:
        what: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = await house.ask("POST", path, **what)
        assert answer.status_code == 400, answer.text
        found = answer.json()
        assert field in (found.get("field", "").partition("[")[0], found["error"].split()[0].strip(":")) or field in (
            found.get("field", "")
        ), found
        assert "Traceback" not in answer.text
        assert await house.is_untouched()


@pytest.mark.parametrize(
    ("path", "size"), [(BEAT, 200_000), ("/v1/heartbeats/batch", 5_000_000), ("/v1/jobs", 2_000_000)]
)
async def test_a_body_over_the_limit_is_refused_before_it_is_read(tmp_path: Path, path: str, size: int) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("POST", path, content=b" " * size)
        assert (answer.status_code, answer.json()["field"]) == (413, "body")
        assert await house.is_untouched()


QUERIES = [
    ("/v1/jobs", "runId"),
    ("/v1/jobs?runId=", "runId"),
    ("/v1/instances?limit=0", "limit"),
    ("/v1/instances?limit=many", "limit"),
    ("/v1/workers?limit=1001", "limit"),
]


@pytest.mark.parametrize(("path", "field"), QUERIES)
async def test_a_bad_parameter_is_refused_by_name(tmp_path: Path, path: str, field: str) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", path)
        assert (answer.status_code, answer.json()["field"]) == (400, field)


SIGNALS = [
    ({"kind": "UD_MAYBE", "runId": "", "round": "a", "seq": 1}, "kind"),
    ({"kind": "UD_OK", "runId": "", "round": "a b", "seq": 1}, "round"),
    ({"kind": "UD_OK", "runId": "", "round": "a", "seq": 0}, "seq"),
]


@pytest.mark.parametrize(("body", "field"), SIGNALS)
async def test_a_bad_signal_is_refused_by_name(tmp_path: Path, body: Any, field: str) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("POST", f"/v1/agents/{INSTANCE}/signals", INSTANCE, json=body)
        assert (answer.status_code, answer.json()["field"]) == (400, field)
        assert (await house.ports.signals.read([INSTANCE]))[INSTANCE].signal is None


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("DELETE", "/v1/jobs", 405),
        ("GET", "/v1/heartbeats", 405),
        ("GET", "/v1/jobs/j-0", 404),
        ("GET", "/v1/instances/i-0", 404),
        ("GET", "/v1/workers/unknown", 404),
        ("GET", "/v1/operations/..%2f..%2ftokens", 404),
    ],
)
async def test_a_missing_endpoint_or_record_is_a_404_or_405_with_an_error(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask(method, path)
        assert (answer.status_code, "error" in answer.json()) == (status, True)
