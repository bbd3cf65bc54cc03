"""What a workflow run may do with its token: provision, watch, stop and release itself, and nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from builders import running
from bullpen.auth.tokens import RUN_LASTS, AgentIdentity, RunIdentity
from bullpen.config import Engines, Github, Settings
from bullpen.model.progress import Tell
from bullpen.model.ticket import Requirements
from bullpen.provision import Outcome
from bullpen.schema.operation import OperationKind
from bullpen.schema.provision import ProvisionAnswer, provision_of
from server.fixtures import INSTANCE, a_house, keys_of
from server.jobs_of_github import GuardedService, a_hub

RUN = RunIdentity("acme/widgets", "4711", 2, "acme/widgets")


async def provisioned(hub: GuardedService, label: str, token: str, **body: Any) -> Requirements:
    """What was asked for in the end, while its machines are being waited for."""
    answer = await hub.house.ask("POST", f"/v1/runs/{label}/provision", token, json={"count": 1, **body})
    assert answer.status_code == 202, answer.text
    await asyncio.sleep(1)
    (made,) = await hub.house.ports.records.run_provisions(label)
    return made.needs


# ---- its own run


async def test_a_run_provisions_watches_and_releases_itself(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        token, house = await hub.run_token(run_attempt="2"), hub.house
        house.memory.yard.capacity = 0
        for label in ("4711", "4711-1", "4711-2", "4711-2-small"):
            for action, body in (("provision", {"count": 1}), ("release", None)):
                begun = await house.ask("POST", f"/v1/runs/{label}/{action}", token, json=body)
                assert begun.status_code == 202
                shown = await house.ask("GET", f"/v1/operations/{begun.json()['id']}", token)
                assert (shown.status_code, shown.json()["runId"]) == (200, label)
            assert (await house.ask("GET", f"/v1/runs/{label}", token)).json()["runId"] == label


@pytest.mark.parametrize("event", ["push", "pull_request"])
async def test_its_claims_decide_the_trust_domain_and_the_repository(tmp_path: Path, event: str) -> None:
    domain = {"push": "acme/widgets/42", "pull_request": "acme/widgets/42#pull-request"}[event]
    async with a_hub(tmp_path) as hub:
        needs = await provisioned(hub, "4711", await hub.run_token(event_name=event))
        assert (needs.trust_domain, needs.repository) == (domain, "acme/widgets")


@pytest.mark.parametrize("spelling", ["acme/widgets/42", "acme/widgets"])
async def test_a_run_may_name_the_trust_domain_and_the_repository_of_its_claims(tmp_path: Path, spelling: str) -> None:
    async with a_hub(tmp_path) as hub:
        said = {"trustDomain": spelling, "repository": "ACME/widgets"}
        needs = await provisioned(hub, "4711", await hub.run_token(), **said)
        assert (needs.trust_domain, needs.repository) == ("acme/widgets/42", "acme/widgets")


@pytest.mark.parametrize(
    "chosen",
    [
        {"trustDomain": "acme/widgets"},
        {"trustDomain": "acme/widgets/42"},
        {"trustDomain": "acme/widgets/43#pull-request"},
        {"trustDomain": "default"},
        {"trustDomain": "acme/widgets#pull-reques"},
        {"repository": "acme/gadgets"},
        {"repository": "evil/widgets"},
    ],
)
async def test_a_body_chooses_neither_trust_domain_nor_repository(tmp_path: Path, chosen: dict[str, str]) -> None:
    async with a_hub(tmp_path) as hub:
        token = await hub.run_token(event_name="pull_request")
        answer = await hub.house.ask("POST", "/v1/runs/4711/provision", token, json={"count": 1, **chosen})
        assert answer.status_code == 403
        assert await hub.house.ports.records.run_provisions("4711") == []


async def test_an_operator_may_name_trust_domain_and_repository(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        needs = await provisioned(hub, "4711", "operate", trustDomain="trusted", repository="acme/widgets")
        assert (needs.trust_domain, needs.repository) == ("trusted", "acme/widgets")
        needs = await provisioned(hub, "4712", "operate")
        assert (needs.trust_domain, needs.repository) == ("default", "")


async def test_an_operator_names_a_repository_of_the_scope(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        for name, reason in (("evil/widgets", "outside github.scope"), ("acme", "repository"), ("a b/c", "repository")):
            body = {"count": 1, "repository": name}
            answer = await hub.house.ask("POST", "/v1/runs/4711/provision", "operate", json=body)
            assert answer.status_code == 400
            assert reason in answer.json()["error"]


async def test_where_the_scope_is_an_organisation_an_operator_must_name_the_repository(tmp_path: Path) -> None:
    async with a_hub(tmp_path, Settings(engines=Engines(ci="github"), github=Github(scope="acme", token="t"))) as hub:
        answer = await hub.house.ask("POST", "/v1/runs/4711/provision", "operate", json={"count": 1})
        assert answer.status_code == 400
        assert "repository: must be given" in answer.json()["error"]


# ---- nothing else


@pytest.mark.parametrize(
    "label",
    ["4712", "47110", "471", "4711-3", "4711-3-large", "04711", "4711%20", "4711-", "run-4711", "x", "-4711", "٤٧١١"],
)
async def test_a_runs_token_is_refused_for_another_run_attempt_or_label(tmp_path: Path, label: str) -> None:
    async with a_hub(tmp_path) as hub:
        token = await hub.run_token(run_attempt="2")
        for method, path, body in (
            ("POST", f"/v1/runs/{label}/provision", {"count": 1}),
            ("POST", f"/v1/runs/{label}/release", None),
            ("GET", f"/v1/runs/{label}", None),
        ):
            assert (await hub.house.ask(method, path, token, json=body)).status_code == 403


async def test_a_run_sees_and_stops_no_operation_of_another(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        own, other = await hub.run_token(), await hub.run_token(run_id="4712")
        begun = (await hub.house.ask("POST", "/v1/runs/4711/release", own)).json()
        path = f"/v1/operations/{begun['id']}"
        for method in ("GET", "DELETE"):
            assert (await hub.house.ask(method, path, other)).status_code == 403
            assert (await hub.house.ask(method, "/v1/operations/op-0123456789abcdef", other)).status_code == 404
            assert (await hub.house.ask(method, path)).status_code == 401
            assert (await hub.house.ask(method, path, INSTANCE)).status_code == 403


ELSEWHERE: list[tuple[str, str, Any]] = [
    ("GET", "/v1/status", None),
    ("GET", "/v1/instances", None),
    ("GET", f"/v1/instances/{INSTANCE}", None),
    ("GET", "/v1/workers", None),
    ("GET", "/v1/workers/w-1", None),
    ("GET", "/v1/events", None),
    ("GET", "/v1/jobs?runId=4711", None),
    ("GET", "/v1/jobs/j-1", None),
    ("GET", "/v1/jobs/j-1/logs", None),
    ("POST", "/v1/jobs", {"runId": "4711", "command": ["true"]}),
    ("POST", "/v1/jobs/j-1/cancel", None),
    ("POST", "/v1/heartbeats", {"workerInstanceKey": f"{INSTANCE}/1"}),
    ("POST", "/v1/heartbeats/batch", {"heartbeats": [{"workerInstanceKey": f"{INSTANCE}/1"}]}),
    ("GET", f"/v1/agents/{INSTANCE}/record", None),
    ("POST", f"/v1/agents/{INSTANCE}/signals", {"kind": "UD_OK", "runId": "4711", "round": "a", "seq": 1}),
    ("PUT", f"/v1/agents/{INSTANCE}/registration", {"runId": "4711", "round": "a"}),
    ("DELETE", f"/v1/agents/{INSTANCE}/registration", None),
    ("POST", f"/v1/agents/{INSTANCE}/jobs/take", {"workerInstanceKey": f"{INSTANCE}/1", "round": "a"}),
    ("POST", f"/v1/agents/{INSTANCE}/jobs/j-1/log?fence=1&offset=0", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ELSEWHERE, ids=[f"{one[0]} {one[1]}" for one in ELSEWHERE])
async def test_a_runs_token_is_refused_by_every_endpoint_but_those_of_its_run(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with a_hub(tmp_path) as hub:
        for change in running(INSTANCE, "4711"):
            await hub.house.ports.records.apply(change)
        assert (await hub.house.ask(method, path, await hub.run_token(), json=body)).status_code == 403
        assert await hub.house.is_untouched()


async def test_every_endpoint_that_a_run_may_use_is_named_here(tmp_path: Path) -> None:
    """An endpoint that is added later is closed to runs, or is added to this list."""
    async with a_hub(tmp_path) as hub:
        token = await hub.run_token()
        documents = [await hub.house.ask("GET", path) for path in ("/v1/openapi.json", "/v1/openapi-agents.json")]
        paths = {path: methods for one in documents for path, methods in one.json()["paths"].items()}
        open_to_runs = []
        for path, methods in paths.items():
            if path == "/v1/events":
                continue  # a stream does not end where it is allowed; it is tested above
            for method, described in methods.items():
                if described.get("security") == []:
                    continue  # they need no token
                filled = path.replace("{runId}", "4711").replace("{operationId}", "op-0")
                filled = filled.replace("{instanceId}", INSTANCE).replace("{", "").replace("}", "")
                body = _anything(filled)
                answer = await hub.house.ask(method.upper(), filled, token, json=body)
                if answer.status_code not in (400, 403):
                    open_to_runs.append(f"{method} {path}")
        assert sorted(open_to_runs) == [
            "delete /v1/operations/{operationId}",
            "get /v1/operations/{operationId}",
            "get /v1/runs/{runId}",
            "post /v1/runs/{runId}/provision",
            "post /v1/runs/{runId}/release",
        ]


# ---- the token itself


def test_a_runs_token_identifies_its_run_until_it_expires() -> None:
    keys = keys_of()
    token = keys.run_token(RUN, 1000.5)
    assert keys.bearer(token, 1000 + RUN_LASTS - 0.1) == RUN
    assert keys.bearer(token, 1000 + RUN_LASTS) is None


async def test_an_expired_token_is_refused(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        token = await hub.run_token()
        await asyncio.sleep(RUN_LASTS + 1)
        assert (await hub.house.ask("GET", "/v1/runs/4711", token)).status_code == 401


def test_a_token_with_any_character_changed_is_invalid() -> None:
    keys = keys_of()
    token = keys.run_token(RUN, 0)
    packed, mac = token.removeprefix("bpr_").rsplit("_", 1)
    claims = json.loads(base64.urlsafe_b64decode(packed))
    for place, other in enumerate(["acme/gadgets", "4712", 1, "default", 10**12]):
        changed = [*claims[:place], other, *claims[place + 1 :]]
        forged = base64.urlsafe_b64encode(json.dumps(changed).encode()).decode()
        assert keys.bearer(f"bpr_{forged}_{mac}", 1) is None
    for n in range(len(token)):
        assert keys.bearer(token[:n] + ("x" if token[n] != "x" else "y") + token[n + 1 :], 1) is None
        assert keys.bearer(token[:n], 1) is None


def test_no_kind_of_token_passes_for_another() -> None:
    keys = keys_of()
    of_agent, of_run = keys.agent_token(INSTANCE, 0), keys.run_token(RUN, 0)
    assert isinstance(keys.bearer(of_agent, 1), AgentIdentity)
    assert keys.bearer(of_agent.replace("bpa_", "bpr_"), 1) is None
    assert keys.bearer(of_run.replace("bpr_", "bpa_run_"), 1) is None
    assert keys.bearer(of_run.replace("bpr_", "bpa_"), 1) is None


def test_a_runs_token_is_invalid_in_another_home() -> None:
    assert keys_of(secret=b"b" * 32).bearer(keys_of(secret=b"a" * 32).run_token(RUN, 0), 1) is None


@pytest.mark.parametrize("text", ["bpr_", "bpr__", "bpr_a_b", "bpr_W10=_é", "bpr_\x00_", "bpr_" + "_" * 9000])
def test_a_malformed_token_of_a_run_is_invalid(text: str) -> None:
    assert keys_of().bearer(text, 0) is None


async def test_a_runs_token_is_stored_nowhere(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        before = hub.house.memory.shelf.book()
        await hub.run_token()
        assert hub.house.memory.shelf.book() == before
        assert "tokens" not in os.listdir(tmp_path)


async def test_no_answer_and_no_log_shows_a_runs_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with a_hub(tmp_path) as hub:
        token = await hub.run_token()
        answers = [
            await hub.house.ask("GET", "/v1/runs/4711", token),
            await hub.house.ask("GET", "/v1/runs/4712", token),
            await hub.house.ask("GET", "/v1/status", token),
            await hub.house.ask("GET", "/v1/status", token[:-1]),
            await hub.house.ask("POST", "/v1/runs/4711/provision", token, json={"count": 0}),
            await hub.house.ask("POST", "/v1/runs/4711/release", token),
        ]
        said = caplog.text + "".join(answer.text for answer in answers)
        assert [part for part in token.split("_")[1:] if part in said] == []


# ---- operations are stopped one by one


async def test_an_operation_that_is_asked_to_stop_gives_back_what_it_holds(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        token = await hub.run_token()
        stopped, going_on = [
            (await hub.house.ask("POST", f"/v1/runs/{label}/provision", token, json={"count": 1})).json()["id"]
            for label in ("4711", "4711-1")
        ]
        await asyncio.sleep(1)  # no agent answers in memory: both wait for theirs
        answer = await hub.house.ask("DELETE", f"/v1/operations/{stopped}", token)
        assert (answer.status_code, answer.json()["id"]) == (202, stopped)
        await asyncio.sleep(10)
        shown = (await hub.house.ask("GET", f"/v1/operations/{stopped}", token)).json()
        assert shown["state"] == "cancelled"
        assert "interrupt" in shown["reason"] or "stop" in shown["reason"]
        assert await hub.house.ports.records.run_instances("4711") == []
        beside = (await hub.house.ask("GET", f"/v1/operations/{going_on}", token)).json()
        assert beside["state"] == "running"


async def test_stopping_an_ended_operation_changes_nothing(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        begun = (await hub.house.ask("POST", "/v1/runs/4711/release", "operate")).json()
        await asyncio.sleep(60)
        answer = await hub.house.ask("DELETE", f"/v1/operations/{begun['id']}", "operate")
        assert (answer.status_code, answer.json()["state"]) == (202, "succeeded")


async def test_stopping_needs_more_than_the_scope_read(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        begun = (await hub.house.ask("POST", "/v1/runs/4711/release", "operate")).json()
        assert (await hub.house.ask("DELETE", f"/v1/operations/{begun['id']}", "read")).status_code == 403


async def test_stopping_an_operation_of_another_process_is_a_conflict_that_says_what_to_do(tmp_path: Path) -> None:
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:

        async def work(stop: asyncio.Event, tell: Tell) -> ProvisionAnswer:
            await stop.wait()
            return provision_of(Outcome("r", "p-1", 1, reason="stopped"))

        begun = first.context.operations.begin(OperationKind.PROVISION, "r", 600.0, work)
        answer = await second.ask("DELETE", f"/v1/operations/{begun.id}")
        assert (answer.status_code, "releasing its run" in answer.json()["error"]) == (409, True)


def _anything(path: str) -> Any:
    """A body that is fine, so that it is the token that is judged."""
    worker = {"workerInstanceKey": f"{INSTANCE}/1"}
    holding = worker | {"epoch": 1, "fence": 1}
    bodies: dict[str, Any] = {
        "provision": {"count": 1},
        "heartbeats": worker,
        "batch": {"heartbeats": [worker]},
        "jobs": {"runId": "4711", "command": ["true"]},
        "signals": {"kind": "UD_OK", "runId": "", "round": "a", "seq": 1},
        "registration": {"runId": "4711", "round": "a"},
        "take": worker | {"round": "a"},
        "bind": holding,
        "give-back": holding,
        "finish": holding | {"exitCode": 0},
    }
    return bodies.get(path.rpartition("/")[2])
