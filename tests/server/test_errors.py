"""What every answer has in common: errors with a stable code, and the version of the server."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar.exceptions import NotFoundException

from bullpen import __version__
from bullpen.schema.error import ErrorAnswer, ErrorCode
from bullpen.server.load_limits import Admission
from bullpen.server.problems import CODES, Problem, of_http
from server.fixtures import INSTANCE, a_house
from server.wired import Wire, beat, request

REFUSED: list[tuple[str, str, Any, int, ErrorCode]] = [
    ("GET", "/v1/nothing-here", None, 404, ErrorCode.NO_SUCH_ENDPOINT),
    ("GET", "/v1", None, 404, ErrorCode.NO_SUCH_ENDPOINT),
    ("GET", "/nothing", None, 404, ErrorCode.NO_SUCH_ENDPOINT),
    ("GET", "/nothing/here", None, 404, ErrorCode.NO_SUCH_ENDPOINT),
    ("GET", "/v1/runs/never", None, 404, ErrorCode.NOT_FOUND),
    ("GET", "/v1/jobs/j-never", None, 404, ErrorCode.NOT_FOUND),
    ("GET", "/v1/operations/op-never", None, 404, ErrorCode.NOT_FOUND),
    ("GET", "/v1/stories/never", None, 404, ErrorCode.NOT_FOUND),
    ("PATCH", "/v1/jobs", None, 405, ErrorCode.METHOD_NOT_ALLOWED),
    ("POST", "/v1/jobs", {"runId": "r"}, 400, ErrorCode.INVALID_REQUEST),
    ("GET", "/v1/instances?limit=0", None, 400, ErrorCode.INVALID_REQUEST),
    ("GET", "/v1/instances?state=absent", None, 400, ErrorCode.INVALID_REQUEST),
    ("GET", "/v1/runs?state=bogus", None, 400, ErrorCode.INVALID_REQUEST),
    ("GET", f"/v1/agents/{INSTANCE}/record", None, 403, ErrorCode.FORBIDDEN),
    ("POST", "/v1/heartbeats", {"workerInstanceKey": "w", "token": 7}, 404, ErrorCode.NOT_FOUND),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), REFUSED, ids=lambda part: str(part)[:40])
async def test_every_error_is_one_json_object_with_a_stable_code_and_a_remedy(
    tmp_path: Path, method: str, path: str, body: Any, status: int, code: ErrorCode
) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask(method, path, json=body)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
        found = msgspec.json.decode(answer.content, type=ErrorAnswer)
        assert found.code is code
        assert found.error
        assert found.remedy


async def test_a_caller_without_a_token_and_one_too_many_are_told_by_code(tmp_path: Path) -> None:
    async with a_house(tmp_path, admission=Admission(requests=0)) as house:
        assert (await house.ask("GET", "/v1/status")).json()["code"] == "too-busy"
        house.guard()
        assert (await house.ask("GET", "/v1/status")).json()["code"] == "unauthenticated"
        assert (await house.ask("POST", "/v1/runs/r/release", "read")).json()["code"] == "forbidden"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 431, 500, 503])
def test_every_status_has_a_code(status: int) -> None:
    fallback = ErrorCode.INVALID_REQUEST if status < 500 else ErrorCode.INTERNAL
    assert Problem(status, "it failed").answer.code is CODES.get(status, fallback)


def test_every_code_is_answered_with_some_status() -> None:
    found = {Problem(status, "x").answer.code for status in (400, 500, *CODES)}
    assert found | {of_http(NotFoundException()).answer.code} == set(ErrorCode)


@pytest.mark.parametrize(
    ("path", "field", "allowed"),
    [
        ("/v1/instances?state=bogus", "state", "one of created, idle, claimed, running, terminated"),
        ("/v1/jobs?runId=r&state=bogus", "state", "one of queued, running, finished"),
        ("/v1/runs?state=bogus", "state", "one of waiting, provisioning, running, releasing"),
        ("/v1/operations?kind=bogus", "kind", "one of provision, release"),
        (f"/v1/instances?resourceClass={'x' * 64}", "resourceClass", "a text of at most 63 characters"),
    ],
)
async def test_a_wrong_value_is_refused_by_the_name_of_its_parameter(
    tmp_path: Path, path: str, field: str, allowed: str
) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", path)
        assert (answer.status_code, answer.json()["field"], answer.json().get("allowed")) == (400, field, allowed)
        assert answer.json()["error"].startswith(f"{field} ")


# ---- unknown parameters


@pytest.mark.parametrize(
    ("path", "field", "remedy"),
    [
        ("/v1/instances?limt=5", "limt", "Did you mean limit?"),
        ("/v1/instances?class=small", "class", "Did you mean resourceClass?"),
        ("/v1/instances?limit=5&runid=r", "runid", "Did you mean runId?"),
        ("/v1/jobs?runId=r&wanted=1", "wanted", "Leave it out."),
        ("/v1/runs?sate=running", "sate", "Did you mean state?"),
        ("/v1/operations?run=1", "run", "Did you mean runId?"),
        ("/v1/workers?satte=active", "satte", "Did you mean state?"),
        ("/v1/status?verbose=1", "verbose", "Leave it out."),
        ("/v1/events?since=1", "since", "Leave it out."),
        ("/v1/runs/r?jobs=1", "jobs", "Leave it out."),
        ("/v1/stories/r?lines=1", "lines", "Leave it out."),
    ],
)
async def test_an_unknown_parameter_is_refused_with_the_one_that_was_meant(
    tmp_path: Path, path: str, field: str, remedy: str
) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", path)
        found = answer.json()
        assert (answer.status_code, found["code"], found["field"]) == (400, "invalid-request", field)
        assert found["error"] == f"{field}: no such parameter"
        assert found["remedy"] == remedy
        assert found["allowed"]


async def test_agents_may_send_parameters_that_this_release_does_not_know(tmp_path: Path) -> None:
    """During an upgrade agents and servers of two releases talk to each other."""
    async with a_house(tmp_path) as house:
        assert (await house.ask("GET", f"/v1/agents/{INSTANCE}/record?later=1", INSTANCE)).status_code == 200


# ---- the version


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/status", None),
        ("GET", "/v1/nothing-here", None),
        ("GET", "/healthz", None),
        ("GET", "/v1/openapi.json", None),
        ("POST", "/v1/jobs", {}),
        ("POST", "/v1/heartbeats", {"workerInstanceKey": "w"}),
        ("POST", "/v1/heartbeats", {}),
        ("POST", "/v1/heartbeats/batch", {"heartbeats": [{"workerInstanceKey": "w"}]}),
    ],
)
async def test_every_answer_has_the_version_of_the_server(tmp_path: Path, method: str, path: str, body: Any) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask(method, path, json=body)
        assert answer.headers.get_list("bullpen-version") == [__version__]
        house.guard()
        if path.startswith("/v1/status"):
            assert (await house.ask(method, path)).headers.get_list("bullpen-version") == [__version__]


async def test_what_a_connection_answers_by_itself_has_the_version_too(tmp_path: Path) -> None:
    header = f"\r\nbullpen-version: {__version__}\r\n".encode()
    async with a_house(tmp_path) as house:
        for sent in (
            beat(),
            beat() + beat(),
            beat("w", "Connection: close"),
            b"no HTTP\r\n\r\n",
            request("/v1/x", b"{}"),
        ):
            wire = Wire(house)
            wire.send(sent)
            await asyncio.sleep(1)
            assert wire.received.count(header) == len(wire.statuses) > 0
