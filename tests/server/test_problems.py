"""The field that an error names. msgspec and litestar say it in their texts: a version with other texts fails here."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import bullpen
from bullpen.liveness.schema import HeartbeatRequest
from bullpen.model import limits
from bullpen.schema import remedies, requests
from bullpen.schema.base import RequestBody
from bullpen.schema.error import ErrorAnswer
from bullpen.schema.remedies import DESCRIBED
from bullpen.schema.sources import AskMissing
from bullpen.server import mistakes
from bullpen.server.mistakes import of_decoding
from bullpen.server.problems import meant, nearest
from server.fixtures import a_house

NUMBER = "must be a whole number from 0 to 9007199254740992"
OBJECT = "boundActivities[0] 7: must be an object"
INDEX = "a whole number from 0 to 1000000"
LIST, TEXT = "a list of 1 to 256 entries", "a text of at most 32768 characters"
WORD = "must be a text of 1 to 128 characters"
BEATS = [
    # body, field, error, remedy
    ({}, "workerInstanceKey", f"workerInstanceKey: is missing: {WORD}", ""),
    ({"workerInstanceKey": "w", "tokn": 1}, "tokn", "tokn: no such field", "Did you mean token?"),
    ({"workerInstanceKey": "w", "pulse": 1}, "pulse", "pulse: no such field", "Leave it out."),
    ({"workerInstanceKey": 7}, "workerInstanceKey", f"workerInstanceKey 7: {WORD}", ""),
    (
        {"workerInstanceKey": "a b"},
        "workerInstanceKey",
        "workerInstanceKey: 'a b' must be printable characters without spaces",
        "",
    ),
    (
        {"workerInstanceKey": "w", "token": -1},
        "token",
        f"token -1: {NUMBER}",
        "",
    ),
    (
        {"workerInstanceKey": "w", "metadata": {"pid": "1"}},
        "metadata.pid",
        f"metadata.pid '1': {NUMBER}",
        "",
    ),
    (
        {"workerInstanceKey": "w", "metadata": {"hots": "h"}},
        "metadata.hots",
        "metadata.hots: no such field",
        "Did you mean host?",
    ),
    (
        {"workerInstanceKey": "w", "boundActivities": [7]},
        "boundActivities[0]",
        "boundActivities[0] 7: must be an object",
        "",
    ),
    (
        {"workerInstanceKey": "w", "leavingAt": "soon"},
        "leavingAt",
        "leavingAt 'soon': must be a time with its zone, such as 2026-01-31T12:00:00Z or null",
        "",
    ),
    ([], "body", "body: must be an object, not a list", ""),
]


@pytest.mark.parametrize(("body", "field", "error", "remedy"), BEATS, ids=[row[2] for row in BEATS])
def test_an_error_of_msgspec_names_the_field_the_value_and_what_is_allowed(
    body: Any, field: str, error: str, remedy: str
) -> None:
    sent = msgspec.json.encode(body)
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(sent, type=HeartbeatRequest)
    answer = of_decoding(raised.value, HeartbeatRequest, sent).answer
    assert (answer.field, answer.error, answer.remedy) == (field, error, remedy or DESCRIBED)


JOBS = [
    # body, field, error, allowed, remedy
    (b'{"runId": "r"}', "command", "command: is missing: must be {}", LIST, ""),
    (b'{"runId": "r", "command": ["a"], "prio": 1}', "prio", "prio: no such field", None, "Leave it out."),
    (b'{"runId": "r", "command": ["a"], "Index": 1}', "Index", "Index: no such field", None, "Did you mean index?"),
    (b'{"runId": "r", "command": "ls"}', "command", "command 'ls': must be {}", LIST, ""),
    (
        b'{"runId": "r", "command": ["a", 7]}',
        "command[1]",
        "command[1] 7: must be {}",
        "a text of at most 32768 characters",
        "",
    ),
    (
        b'{"runId": "r", "command": ["a", null]}',
        "command[1]",
        "command[1]: must be {}, not null",
        "a text of at most 32768 characters",
        "",
    ),
    (b'{"runId": "r", "command": []}', "command", "command: must be {}", LIST, ""),
    (b'{"runId": "r", "command": {}}', "command", "command: must be {}, not an object", LIST, ""),
    (b'{"runId": "r", "command": ["a"], "index": []}', "index", "index: must be {}, not a list", INDEX, ""),
    (b"[]", "body", "body: must be {}, not a list", "an object", ""),
    (b"", "body", "body: is missing: must be an object", None, ""),
    (b"{", "body", "the body is not JSON: input data was truncated", None, ""),
]


@pytest.mark.parametrize(("body", "field", "error", "allowed", "remedy"), JOBS, ids=[row[0].decode() for row in JOBS])
async def test_an_error_of_the_router_names_the_field_of_the_body(
    tmp_path: Path, body: bytes, field: str, error: str, allowed: str | None, remedy: str
) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("POST", "/v1/jobs", content=body)
        found = answer.json()
        assert (answer.status_code, found["code"], found["field"]) == (400, "invalid-request", field)
        assert (found["error"], found["remedy"]) == (error.format(allowed), remedy or DESCRIBED)
        assert allowed in (None, found.get("allowed"))


CLASSES, DOMAIN = "one of large, medium, small", f"{limits.TRUST_DOMAIN_ALLOWED} or null"
PROVISIONS = [
    # body, field, value, allowed, remedy
    ({"count": "x"}, "count", "x", "a whole number from 1 to 1000", ""),
    ({"count": True}, "count", "true", "a whole number from 1 to 1000", ""),
    (
        {"count": 501},
        "count",
        "501",
        "at most 500 (limits.max-count)",
        "Ask for fewer, or have",
    ),
    ({"count": 1, "usageClass": "spott"}, "usageClass", "spott", "one of on-demand, spot", "Did you mean spot?"),
    ({"count": 1, "usageClass": "free"}, "usageClass", "free", "one of on-demand, spot", ""),
    (
        {"count": 1, "resourceClass": "smal"},
        "resourceClass",
        "smal",
        "one of large, medium, small",
        "Did you mean small?",
    ),
    ({"count": 1, "trustDomain": "a b"}, "trustDomain", "a b", DOMAIN, ""),
    ({"count": 1, "repository": "widgets"}, "repository", "widgets", "OWNER/NAME, as GitHub calls it, or empty", ""),
    (
        {"count": 1, "trustDomain": "x" * 300},
        "trustDomain",
        "x" * 99 + "…",
        f"{limits.TRUST_DOMAIN_ALLOWED} or null",
        "",
    ),
]


@pytest.mark.parametrize(("body", "field", "value", "allowed", "remedy"), PROVISIONS)
async def test_a_refused_value_is_shown_with_what_is_allowed_and_what_was_meant(
    tmp_path: Path, body: Any, field: str, value: str, allowed: str, remedy: str
) -> None:
    async with a_house(tmp_path) as house:
        answer = (await house.ask("POST", "/v1/runs/r/provision", json=body)).json()
        assert (answer["field"], answer["value"], answer["allowed"]) == (field, value, allowed)
        assert answer["remedy"].startswith(remedy or DESCRIBED)
        assert answer["error"].startswith(f"{field} ")


LEASE = f"leaseSeconds: {NUMBER} or null"
EXTRA = "must be a text of at most 1024 characters"
UNTOLD: list[tuple[Any, bytes, str, str]] = [
    # kind, body, field, error
    (HeartbeatRequest, b'{"workerInstanceKey": "w", "leaseSeconds": 1e999}', "leaseSeconds", LEASE),
    (HeartbeatRequest, b'{"workerInstanceKey": "w", "token": -1, "domain": 1e999}', "token", f"token: {NUMBER}"),
    (
        requests.ProvisionRun,
        b'{"count": ' + b"9" * 5000 + b"}",
        "count",
        "count: must be a whole number from 1 to 1000",
    ),
    (requests.ProvisionRun, b'{"count": null}', "count", "count: must be a whole number from 1 to 1000, not null"),
    (
        HeartbeatRequest,
        b'{"workerInstanceKey": "w", "metadata": {"extras": {"a.b": 5}}}',
        "metadata.extras[...]",
        f"metadata.extras[...]: {EXTRA}",
    ),
    (
        HeartbeatRequest,
        b'{"workerInstanceKey": "w", "metadata": {"extras": {"a": [], "...": 1}}}',
        "metadata.extras[...]",
        f"metadata.extras[...]: {EXTRA}",
    ),
    (
        HeartbeatRequest,
        b'{"workerInstanceKey": "w", "metadata": {"extras": {"%s": "a"}}}' % (b"x" * 129),
        "metadata.extras",
        "metadata.extras: each name must be a text of at most 128 characters",
    ),
    (
        HeartbeatRequest,
        msgspec.json.encode({"workerInstanceKey": "w", "metadata": {"extras": {str(i): "a" for i in range(65)}}}),
        "metadata.extras",
        "metadata.extras: must be an object of at most 64 entries",
    ),
]


def answer_to(body: bytes, kind: Any) -> ErrorAnswer:
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.decode(body, type=kind)
    return of_decoding(raised.value, kind, body).answer


@pytest.mark.parametrize(("kind", "body", "field", "error"), UNTOLD, ids=[row[3] for row in UNTOLD])
def test_an_error_says_nothing_of_a_value_that_it_cannot_tell(kind: Any, body: bytes, field: str, error: str) -> None:
    answer = answer_to(body, kind)
    assert (answer.field, answer.error, answer.value) == (field, error, "")


def test_the_value_of_an_unknown_field_is_found_by_its_whole_name() -> None:
    answer = answer_to(b'{"count": 1, "wait": 3, "a.b": 2}', requests.ProvisionRun)
    assert (answer.field, answer.value) == ("a.b", "2")


LONG: list[tuple[Any, Any]] = [
    (HeartbeatRequest, {"workerInstanceKey": "w", "k" * 100_000: 1}),
    (HeartbeatRequest, {"workerInstanceKey": "w", "token" * 20_000: 1}),
    (HeartbeatRequest, {"workerInstanceKey": "w", "a." * 50_000: 1}),
    (HeartbeatRequest, {"workerInstanceKey": "w", "metadata": {"a[0]." * 20_000: 1}}),
    (HeartbeatRequest, {"workerInstanceKey": "w", "x' - at `$." + "metadata." * 10_000: 1}),
    (HeartbeatRequest, {"workerInstanceKey": "w", "activity": "x" * 100_000}),
    (HeartbeatRequest, {"workerInstanceKey": "w", "metadata": {"capabilities": ["a b"] + ["x"] * 60}}),
    (requests.ProvisionRun, {"count": 1, "usageClass": "spot" * 25_000}),
    (requests.ProvisionRun, {"count": "\x01" * 100_000}),
    (requests.ProvisionRun, ["x"] * 10_000),
]
MOST_CALLS = 5_000


@pytest.mark.parametrize(("kind", "body"), LONG)
def test_the_time_for_an_error_does_not_grow_with_the_text_that_was_sent(kind: Any, body: Any) -> None:
    """The loop of the server makes the errors: the calls are counted, since a time would depend on the machine."""
    sent = msgspec.json.encode(body)
    answer_to(b"{}", kind)  # what is cached is
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.decode(sent, type=kind)
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        of_decoding(raised.value, kind, sent)
    finally:
        sys.setprofile(before)
    assert 0 < calls < MOST_CALLS


@pytest.mark.parametrize("length", [64, 65])
def test_near_misses_are_looked_for_up_to_a_length(length: int) -> None:
    name = "sessionToken".ljust(length, "x")
    assert nearest(name, [name[:-1] + "y"]) == (name[:-1] + "y" if length == 64 else "")
    assert meant(name, f"one of a, {name.lower()}") == (f"Did you mean {name.lower()}?" if length == 64 else None)


def test_every_pattern_of_a_request_has_words() -> None:
    found = re.findall(r'"pattern":"((?:[^"\\]|\\.)*)"', json.dumps(_schemas(), separators=(",", ":")))
    assert {json.loads(f'"{one}"') for one in found} <= {*mistakes.PATTERNS}


def _schemas() -> Any:
    kinds = [one for one in vars(requests).values() if isinstance(one, type) and issubclass(one, RequestBody)]
    return msgspec.json.schema_components([*kinds, AskMissing, HeartbeatRequest])


@pytest.mark.parametrize("field", sorted(mistakes.SECRETS))
async def test_a_secret_is_not_repeated(tmp_path: Path, field: str) -> None:
    async with a_house(tmp_path) as house:
        secret = "s3cret " * 3000
        body = {"authorization": "a", "date": "b", "sessionToken": "c", field: secret}
        path = "/v1/agents/token" if field != "token" else "/v1/oidc/token"
        for sent in ({"token": secret} if field == "token" else body, {"count": 1, field: secret}):
            answer = await house.ask("POST", path, json=sent)
            assert answer.status_code in (400, 413)
            assert "s3cret" not in answer.text


PROOF = {"authorization": "a", "date": "b", "sessionToken": "c"}
AGENT, OIDC, PROVISION = "/v1/agents/token", "/v1/oidc/token", "/v1/runs/r/provision"
HIDDEN: list[tuple[str, str, Any]] = [
    ("POST", AGENT, {**PROOF, "session_token": "s3cret"}),
    ("POST", AGENT, {**PROOF, "authorisation": "s3cret"}),
    ("POST", AGENT, {**PROOF, "key": "s3cret"}),
    ("POST", AGENT, {**PROOF, "date": "s3cret" * 10}),
    ("POST", AGENT, {**PROOF, "date": ["s3cret"]}),
    ("POST", AGENT, "s3cret"),
    ("POST", OIDC, {"Token": "s3cret"}),
    ("POST", OIDC, {"jwt": "s3cret"}),
    ("POST", OIDC, {"jwt": {"token": "s3cret"}}),
    ("POST", OIDC, {"token": {"token": "s3cret"}}),
    ("POST", OIDC, {"token": ["s3cret"]}),
    ("POST", OIDC, b'{"token": 53637265743}'),
    ("POST", OIDC, b'{"token": 5363.7265743}'),
    ("POST", OIDC, "s3cret"),
    ("POST", OIDC, ["s3cret"]),
    ("POST", OIDC + "?tokn=s3cret", {"token": "t"}),
    ("POST", PROVISION, {"count": 1, "accessToken": "s3cret"}),
    ("POST", PROVISION, {"count": 1, "Authorisation": "s3cret"}),
    ("POST", PROVISION, {"count": 1, "token" + "n" * 100: "s3cret"}),
    ("POST", "/v1/heartbeats", {"workerInstanceKey": "w", "token": "s3cret"}),
    ("POST", "/v1/heartbeats", {"workerInstanceKey": "w", "tokn": "s3cret"}),
    ("POST", "/v1/heartbeats", {"workerInstanceKey": "w", "metadata": {"extras": {"a token": "s3cret"}}}),
    ("GET", "/v1/jobs?runId=r&access_token=s3cret", None),
    ("GET", "/v1/jobs?runId=r&tokn=s3cret", None),
    ("DELETE", "/v1/workers/w?token=s3cret&epoch=1", None),
    ("DELETE", "/v1/workers/w?Token=s3cret&epoch=1", None),
]


@pytest.mark.parametrize(("method", "path", "body"), HIDDEN)
async def test_a_secret_of_another_name_or_type_is_not_repeated(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with a_house(tmp_path) as house:
        what: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = await house.ask(method, path, **what)
        assert answer.status_code == 400, answer.text
        assert "s3cret" not in answer.text
        assert "5363" not in answer.text


REFUSED = [
    ("POST", "/v1/jobs", {"runId": "a b", "command": ["a"]}, "runId"),
    ("POST", "/v1/jobs", {"runId": "r", "command": ["a"], "artifacts": ["/etc"]}, "artifacts"),
    ("POST", "/v1/jobs", {"runId": "r", "command": ["a"], "source": "x"}, "source"),
    ("POST", "/v1/runs/set:x/provision", {"count": 1}, "runId"),
    ("GET", "/v1/workers/unknown", None, None),
    ("GET", "/v1/instances/i-0", None, None),
    ("GET", "/v1/jobs/j-0", None, None),
    ("GET", "/v1/jobs/j-0/logs", None, None),
    ("GET", "/v1/jobs/j-0/artifacts", None, None),
    ("GET", "/v1/runs/never", None, None),
    ("GET", "/v1/stories/never", None, None),
    ("GET", "/v1/operations/op-0", None, None),
    ("DELETE", "/v1/operations/op-0", None, None),
    ("DELETE", "/v1/workers/w?token=1&epoch=1", None, None),
    ("POST", "/v1/jobs", {"runId": "never", "command": ["a"]}, None),
    ("PUT", "/v1/sources/packs/x?offset=0&size=1", None, None),
    ("POST", "/v1/github/webhook", None, None),
    ("POST", "/v1/oidc/token", {"token": "x"}, None),
    ("POST", "/v1/agents/token", {"authorization": "a", "date": "b", "sessionToken": "c"}, None),
]


@pytest.mark.parametrize(("method", "path", "body", "field"), REFUSED)
async def test_every_refusal_has_a_remedy_that_a_program_can_follow(
    tmp_path: Path, method: str, path: str, body: Any, field: str | None
) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask(method, path, json=body)
        found = answer.json()
        assert 400 <= answer.status_code < 500, answer.text
        assert found["remedy"]
        assert not re.search(r"`bullpen (status|job|run|provision|release|why|workers)", found["remedy"])
        if field:
            assert (found["field"], bool(found["value"]), bool(found["allowed"])) == (field, True, True)


def test_a_remedy_for_programs_is_one_for_people_at_a_terminal() -> None:
    for said, asked in remedies.TERMS.items():
        assert remedies.over_http(f"{said}; more.") == f"{asked}; more."
        assert remedies.at_a_terminal(f"{asked}; more.") == f"{said}; more."
    assert remedies.at_a_terminal(DESCRIBED) == ""


def test_every_command_that_a_use_case_names_as_a_remedy_has_an_endpoint() -> None:
    """Commands of operators of the server stay as they are."""
    folders = ("jobs", "inventory", "provision", "release", "liveness", "pool", "refresh")
    files = [path for folder in folders for path in (Path(bullpen.__file__).parent / folder).rglob("*.py")]
    text = " ".join(re.findall(r'"([^"\n]*`bullpen [^"\n]*)"', "\n".join(path.read_text() for path in files)))
    text = remedies.over_http(text)
    assert re.findall(r"Run `bullpen (?:status|job|run|provision|release|why|workers)[^`]*`", text) == []


STATES = "one of created, idle, claimed, running, terminated"
PARAMETERS = [
    # path, field, value, allowed, remedy
    ("/v1/jobs", "runId", None, "a text of 1 to 128 characters", ""),
    ("/v1/jobs?runId=", "runId", None, "a text of 1 to 128 characters", ""),
    ("/v1/instances?limit=many", "limit", "many", "a whole number from 1 to 1000", ""),
    ("/v1/instances?limit=0", "limit", "0", "a whole number from 1 to 1000", ""),
    (
        "/v1/instances?state=idel",
        "state",
        "idel",
        "one of created, idle, claimed, running, terminated",
        "Did you mean idle?",
    ),
    ("/v1/workers?state=lost", "state", "lost", "one of active, inactive, suspect", ""),
]


@pytest.mark.parametrize(("path", "field", "value", "allowed", "remedy"), PARAMETERS)
async def test_an_error_of_the_router_names_the_parameter(
    tmp_path: Path, path: str, field: str, value: str | None, allowed: str, remedy: str
) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", path)
        found = answer.json()
        assert (answer.status_code, found["field"], found.get("value"), found["allowed"]) == (
            400,
            field,
            value,
            allowed,
        )
        assert found["remedy"] == (remedy or DESCRIBED)
        assert f"must be {allowed}" in found["error"]
