"""The OpenAPI documents are valid for other tools, and say everything that a program needs to know."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bullpen.schema.error import ErrorCode
from bullpen.schema.requests import ProvisionRun, SubmitJob
from bullpen.server.app import _litestar
from bullpen.server.openapi import AGENTS_PATH, PATH, documents
from fakes import api_tools
from fakes.aws_fixtures import SKIPPED
from server.fixtures import a_house

LINT = Path(__file__).parent / "lint"
TAKES = 300.0  # seconds; a linter takes two
SCRIPT = Path(api_tools.__file__).with_name("compile_schemas.mjs")
PUBLIC = sorted(
    [
        *("listRuns", "showRun", "provisionRun", "releaseRun", "exchangeToken"),
        *("listOperations", "showOperation", "stopOperation"),
        *("submitJob", "listJobs", "showJob", "readJobLogs", "cancelJob", "postponeJob"),
        *(
            "showSourceLimits",
            "listMissingBlocks",
            "sendPack",
            "sendManifest",
            "listArtifacts",
            "readArtifacts",
            "readEvidence",
        ),
        *("showStatus", "listInstances", "showInstance", "showStories"),
        *("listPauses", "pausePool", "resumePool", "drainInstances", "rotatePool"),
        *("explainSubject", "planProvision", "showQueue"),
        *("listWorkers", "showWorker", "stopWorker", "recordHeartbeat", "recordHeartbeats"),
        *("showControl", "showSeries"),
        *("showCost", "listCostHours", "listActivity"),
        *("openSession", "showSession", "endSession"),
        *("streamEvents", "receiveWebhook", "checkHealth", "checkReadiness", "showMetrics"),
    ]
)
AGENTS = sorted(
    [
        *("showAgentRecord", "reportSignal", "takeJob", "bindJob", "checkAssignment", "giveBackJob", "finishJob"),
        *("appendJobLog", "registerRunner", "deregisterRunner", "proveInstance"),
        *("fetchSource", "sendArtifacts"),
    ]
)


def written(folder: Path) -> list[Path]:
    """Both documents as files."""
    found = documents(_litestar())
    names = {PATH: "openapi.json", AGENTS_PATH: "openapi-agents.json"}
    for path, name in names.items():
        (folder / name).write_bytes(found[path])
    return [folder / name for name in names.values()]


def decoded(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(documents(_litestar())[path])
    return found


BOTH = [decoded(PATH), decoded(AGENTS_PATH)]
IDS = ["public", "agents"]


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def properties(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in document["components"]["schemas"].items():
        for field, one in schema.get("properties", {}).items():
            yield f"{name}.{field}", one


def everything(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
        for one in part.values():
            yield from everything(one)
    elif isinstance(part, list):
        for one in part:
            yield from everything(one)


# ---- other tools


@pytest.fixture(scope="session")
def node_tools() -> Path:
    return _or_skip(api_tools.node_tools)


@pytest.fixture(scope="session")
def python_tools() -> Path:
    return _or_skip(api_tools.python_tools)


def _or_skip(fetch: Any) -> Path:
    try:
        found: Path = fetch()
    except api_tools.ApiToolsMissing as exc:
        if os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1":
            raise
        pytest.skip(f"{SKIPPED}: {exc}")
    return found


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=TAKES)


@pytest.mark.engines
def test_openapi_spec_validator_accepts_both_documents(tmp_path: Path, python_tools: Path) -> None:
    ran = run(tmp_path, python_tools, "-m", "openapi_spec_validator", *written(tmp_path))
    assert (ran.returncode, ran.stdout.count(": OK")) == (0, 2), ran.stdout + ran.stderr


@pytest.mark.engines
def test_redocly_finds_no_problem(tmp_path: Path, node_tools: Path) -> None:
    program = node_tools / "node_modules/.bin/redocly"
    ran = run(tmp_path, program, "lint", "--config", LINT / "redocly.yaml", *written(tmp_path))
    said = ran.stdout + ran.stderr
    assert (ran.returncode, said.count("validated in"), "descriptions are valid" in said) == (0, 2, True), said
    assert re.search(r"\d+ (warning|problem)", said) is None, said


@pytest.mark.engines
def test_spectral_finds_no_problem(tmp_path: Path, node_tools: Path) -> None:
    program = node_tools / "node_modules/.bin/spectral"
    options: list[str | Path] = [
        "--ruleset",
        LINT / "spectral.yaml",
        "--fail-severity",
        "hint",
        "--format",
        "json",
        "--quiet",
    ]
    ran = run(tmp_path, program, "lint", *options, *written(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout or "[]") == []


@pytest.mark.engines
def test_ajv_compiles_every_schema_and_every_example_fits_its_schema(tmp_path: Path, node_tools: Path) -> None:
    ran = run(tmp_path, "node", SCRIPT, node_tools, *written(tmp_path))
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["failures"] == []
    assert found["schemas"] == sum(len(one["components"]["schemas"]) for one in BOTH)
    assert found["examples"] > len(PUBLIC) + len(AGENTS)


# ---- what they say


def test_every_operation_has_a_short_name_that_stays() -> None:
    names = [sorted(one["operationId"] for _, one in operations(document)) for document in BOTH]
    assert names == [PUBLIC, AGENTS]


@pytest.mark.parametrize("document", BOTH, ids=IDS)
def test_every_operation_parameter_field_and_tag_is_described(document: dict[str, Any]) -> None:
    undescribed = [name for name, one in properties(document) if not one.get("description")]
    for where, one in operations(document):
        undescribed += [] if one["summary"] and one["description"] else [where]
        undescribed += [f"{where} {each['name']}" for each in one.get("parameters", ()) if not each["description"]]
        undescribed += [f"{where} {status}" for status, each in one["responses"].items() if not _said(each)]
    undescribed += [tag["name"] for tag in document["tags"] if not tag["description"]]
    assert undescribed == []
    used = {tag for _, one in operations(document) for tag in one["tags"]}
    assert used == {tag["name"] for tag in document["tags"]}


def _said(response: dict[str, Any]) -> bool:
    return "$ref" in response or bool(response["description"])


@pytest.mark.parametrize("document", BOTH, ids=IDS)
def test_every_state_and_kind_is_an_enum_and_every_time_has_its_format(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    loose = []
    for name, one in properties(document):
        field = name.partition(".")[2]
        parts = [schemas[part["$ref"].rpartition("/")[2]] if "$ref" in part else part for part in everything(one)]
        if re.fullmatch(r"state|kind|phase|result|cause|code|origin|outcome|usageClass|signal", field):
            loose += [] if any("enum" in part or "properties" in part for part in parts) else [name]
        if re.fullmatch(r".*At|since|deadline|endsBy|threshold", field) and name != "AgentRecord.threshold":
            loose += [] if any(part.get("format") == "date-time" for part in parts) else [name]
    assert loose == []


@pytest.mark.parametrize("document", BOTH, ids=IDS)
def test_no_schema_is_empty_and_no_pattern_is_pythons_own(document: dict[str, Any]) -> None:
    parts = list(everything(document))
    assert [part for part in parts if {} in [*part.get("oneOf", ()), *part.get("anyOf", ())]] == []
    patterns = [part["pattern"] for part in parts if isinstance(part.get("pattern"), str)]
    assert [pattern for pattern in patterns if r"\Z" in pattern or r"\A" in pattern or "(?P" in pattern] == []
    assert "absent" not in [value for part in parts if isinstance(part.get("enum"), list) for value in part["enum"]]


@pytest.mark.parametrize("document", BOTH, ids=IDS)
def test_every_component_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    assert [name for name in document["components"]["schemas"] if not re.fullmatch(r"[A-Za-z0-9]+", name)] == []


def enums(document: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """The query parameters with a fixed set of values: path, name and values."""
    for path, methods in document["paths"].items():
        for parameter in methods.get("get", {}).get("parameters", ()):
            schema = parameter["schema"]
            found = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
            if "enum" in found:
                yield path, parameter["name"], found["enum"]


@pytest.mark.parametrize(("path", "name", "values"), [one for document in BOTH for one in enums(document)])
async def test_the_values_of_a_parameter_in_the_document_are_those_that_the_server_accepts(
    tmp_path: Path, path: str, name: str, values: list[str]
) -> None:
    needed = {"/v1/jobs": {"runId": "r"}}.get(path, {})
    async with a_house(tmp_path) as house:
        for value in values:
            assert (await house.ask("GET", path, params={**needed, name: value})).status_code == 200
        answer = await house.ask("GET", path, params={**needed, name: "bogus"})
        assert (answer.status_code, answer.json()["field"]) == (400, name)
        assert sorted(answer.json()["allowed"].removeprefix("one of ").split(", ")) == sorted(values)


VARIANTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no object": {"json": []},
    "an unknown field": {"json": {"bogus": 1}},
    "no JSON": {"content": b"{"},
    "another media type": {"content": b"a=b", "headers": {"content-type": "application/x-www-form-urlencoded"}},
    "a huge body": {"content": b" " * 5_000_000},
    "an unknown parameter": {"params": {"bogus": "1"}},
    "an unknown token": {"token": "bpo_0_0"},
    "the token of an agent": {"token": "i-x"},
    "the example": {"example": True},
}


@pytest.mark.parametrize("document", BOTH, ids=IDS)
async def test_every_status_that_an_operation_answers_is_in_the_document(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    missing = set()
    async with a_house(tmp_path) as house:
        for where, operation in operations(document):
            method, path = where.split()
            path = re.sub("{.*?}", "i-x", path)
            for name, variant in VARIANTS.items():
                sent = dict(variant)
                if sent.pop("example", False):
                    sent = _example(operation)
                if path == "/v1/events" and "token" not in sent and "params" not in sent:
                    continue  # a stream does not end
                answer = await house.ask(method.upper(), path, **sent)
                if str(answer.status_code) not in operation["responses"]:
                    missing.add((operation["operationId"], answer.status_code, name))
    assert missing == set()


def _example(operation: dict[str, Any]) -> dict[str, Any]:
    for kind, one in operation.get("requestBody", {}).get("content", {}).items():
        return {"content": json.dumps(one["example"]).encode(), "headers": {"content-type": kind}}
    return {}


@pytest.mark.parametrize("document", BOTH, ids=IDS)
def test_every_operation_with_an_idempotency_key_describes_the_answer_to_a_mismatch(document: dict[str, Any]) -> None:
    for where, one in operations(document):
        has_key = any(parameter["name"] == "Idempotency-Key" for parameter in one.get("parameters", ()))
        assert ("422" in one["responses"]) is has_key, where
        assert {"408", "413", "431", "500"} <= set(one["responses"])  # of any connection, and of any defect


def test_an_operation_and_its_result_are_told_apart_by_kind() -> None:
    (public, _) = BOTH
    shown = public["paths"]["/v1/operations/{operationId}"]["get"]["responses"]["200"]
    schema = shown["content"]["application/json"]["schema"]
    assert schema["discriminator"]["propertyName"] == "kind"
    assert set(schema["discriminator"]["mapping"]) == {"provision", "release"}
    for kind in ("Provision", "Release"):
        result = public["components"]["schemas"][f"{kind}Operation"]["properties"]["result"]
        assert {"$ref": f"#/components/schemas/{kind}Answer"} in result["anyOf"]


def test_the_agents_endpoints_are_apart() -> None:
    public, agents = (set(document["paths"]) for document in BOTH)
    assert [path for path in public if path.startswith("/v1/agents")] == []
    assert [path for path in agents if not path.startswith("/v1/agents")] == []


@pytest.mark.parametrize("document", BOTH, ids=IDS)
def test_a_document_has_a_server_a_license_and_every_error_code(document: dict[str, Any]) -> None:
    assert document["servers"][0]["url"] == "http://127.0.0.1:8420"
    assert document["info"]["license"]["identifier"] == "Apache-2.0"
    assert set(document["components"]["schemas"]["ErrorCode"]["enum"]) == {one.value for one in ErrorCode}
    assert {"code", "error"} == set(document["components"]["schemas"]["ErrorAnswer"]["required"])


@pytest.mark.parametrize("field", ["repository", "trustDomain", "allowedInstanceTypes"])
def test_a_pattern_of_the_document_and_the_server_refuse_a_line_at_the_end(field: str) -> None:
    """`$` of JSON Schema is the end of the text; Python's would let a last newline pass."""
    good = {"repository": "acme/widgets", "trustDomain": "acme", "allowedInstanceTypes": "c7*"}[field]
    for text, is_good in ((good, True), (f"{good}\n", False)):
        body = {"count": 1, field: [text] if field.endswith("Types") else text}
        try:
            msgspec.convert(body, ProvisionRun)
        except msgspec.ValidationError:
            assert not is_good
        else:
            assert is_good


def test_a_run_id_with_a_line_at_its_end_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"runId": "r\n", "command": ["true"]}, SubmitJob)
