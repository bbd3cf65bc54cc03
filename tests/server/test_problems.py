"""The field that an error names. msgspec and litestar say it in their texts: a version with other texts fails here."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bullpen.liveness.schema import HeartbeatRequest
from bullpen.server.problems import of_decoding
from server.fixtures import a_house

BEATS = [
    # body, field, error
    ({}, "workerInstanceKey", "object missing required field 'workerInstanceKey'"),
    ({"workerInstanceKey": "w", "pulse": 1}, "pulse", "object contains unknown field 'pulse'"),
    ({"workerInstanceKey": 7}, "workerInstanceKey", "expected 'str', got 'int'"),
    ({"workerInstanceKey": "a b"}, "workerInstanceKey", "'a b' must be printable characters without spaces"),
    ({"workerInstanceKey": "w", "token": -1}, "token", "expected 'int' >= 0"),
    ({"workerInstanceKey": "w", "metadata": {"pid": "1"}}, "metadata.pid", "expected 'int', got 'str'"),
    ({"workerInstanceKey": "w", "boundActivities": [7]}, "boundActivities[0]", "expected 'object', got 'int'"),
    ([], "body", "expected 'object', got 'array'"),
]


@pytest.mark.parametrize(("body", "field", "error"), BEATS, ids=[row[2] for row in BEATS])
def test_an_error_of_msgspec_names_the_field(body: Any, field: str, error: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(msgspec.json.encode(body), type=HeartbeatRequest)
    answer = of_decoding(raised.value).answer
    assert (answer.field, answer.error) == (field, f"{field}: {error}")


DESCRIBED = "Correct the request: GET /v1/openapi.json describes what it may contain."
JOBS = [
    # body, field, error
    (b'{"runId": "r"}', "command", "command: object missing required field 'command'"),
    (b'{"runId": "r", "command": ["a"], "prio": 1}', "prio", "prio: object contains unknown field 'prio'"),
    (b'{"runId": "r", "command": "ls"}', "command", "command: expected 'array', got 'str'"),
    (b'{"runId": "r", "command": ["a", 7]}', "command[1]", "command[1]: expected 'str', got 'int'"),
    (b'{"runId": "r", "command": []}', "command", "command: expected 'array' of length >= 1"),
    (b"[]", "body", "body: expected 'object', got 'array'"),
    (b"", "body", "body: expected 'object', got nothing"),
    (b"{", "body", "the body is not JSON: input data was truncated"),
]


@pytest.mark.parametrize(("body", "field", "error"), JOBS, ids=[row[2] for row in JOBS])
async def test_an_error_of_the_router_names_the_field_of_the_body(
    tmp_path: Path, body: bytes, field: str, error: str
) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("POST", "/v1/jobs", content=body)
        found = {"code": "invalid-request", "error": error, "field": field, "remedy": DESCRIBED}
        assert (answer.status_code, answer.json()) == (400, found)


PARAMETERS = [
    ("/v1/jobs", "runId", "runId: missing required query parameter 'runId' for path /v1/jobs"),
    ("/v1/jobs?runId=", "runId", "runId: expected 'str' of length >= 1"),
    ("/v1/instances?limit=many", "limit", "limit: expected 'int', got 'str'"),
]


@pytest.mark.parametrize(("path", "field", "error"), PARAMETERS)
async def test_an_error_of_the_router_names_the_parameter(tmp_path: Path, path: str, field: str, error: str) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", path)
        found = {"code": "invalid-request", "error": error, "field": field, "remedy": DESCRIBED}
        assert (answer.status_code, answer.json()) == (400, found)
