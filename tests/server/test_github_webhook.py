"""A webhook of GitHub wakes the controller of its run; a request of another sender wakes none."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bullpen.config import Github, Settings
from bullpen.engines.github.credentials import read_secret
from bullpen.engines.github.webhooks import webhooks
from bullpen.errors import ConfigError, Unavailable
from bullpen.ports.callers import Verifiers
from bullpen.server.context import REMEMBERED
from bullpen.server.load_limits import Admission
from bullpen.server.routes.github import LARGEST
from bullpen.settings.github import covers
from fakes.github.description import DescriptionMissing, load
from server.fixtures import a_house
from server.jobs_of_github import PAT, SECRET, SETTINGS, WEBHOOK, GuardedService, a_hub, signature_of

JOB = json.dumps(
    {"action": "completed", "repository": {"full_name": "acme/widgets"}, "workflow_job": {"run_id": 4711}}
).encode()


def official(event: str) -> list[dict[str, Any]]:
    """GitHub's own examples of an event."""
    try:
        found: list[dict[str, Any]] = load()["examples"][event]
    except DescriptionMissing as exc:
        if os.environ.get("BULLPEN_REQUIRE_ENGINES"):
            raise
        pytest.skip(str(exc))
    return found


# ---- what GitHub delivers


async def test_of_githubs_own_examples_only_completed_jobs_and_runs_are_noted(tmp_path: Path) -> None:
    expected, others = [], 0
    async with a_hub(tmp_path) as hub:
        for event, run in (("workflow_job", "run_id"), ("workflow_run", "id")):
            for example in official(event):
                _rehomed(hub, str(example["repository"]["full_name"]))
                answer = await hub.deliver(event, json.dumps(example).encode())
                ended = example["action"] == "completed"
                assert (answer.status_code, answer.json()["noted"]) == (202, ended)
                others += not ended
                if ended:
                    expected.append((example["repository"]["full_name"], str(example[event][run])))
        assert min(len(expected), others) >= 4
        assert hub.noted.runs == expected


async def test_a_ping_is_answered_and_noted_nowhere(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        for example in official("ping"):
            answer = await hub.deliver("ping", json.dumps(example).encode())
            assert (answer.status_code, answer.json()) == (202, {"noted": False, "reason": "a ping"})
        assert hub.noted.runs == []


async def test_a_delivery_that_comes_again_wakes_again_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with a_hub(tmp_path) as hub:
        for _ in range(2):
            assert (await hub.deliver("workflow_job", JOB)).status_code == 202
        assert hub.noted.runs == [("acme/widgets", "4711")] * 2
        assert caplog.text.count("again=yes run=4711") == 1


async def test_only_the_last_deliveries_are_remembered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with a_hub(tmp_path) as hub:
        deliveries = hub.house.context.deliveries
        assert (await hub.deliver("workflow_job", JOB)).status_code == 202
        assert len(deliveries) == 1
        deliveries.extend(str(n) for n in range(10 * REMEMBERED))
        assert len(deliveries) == REMEMBERED
        assert (await hub.deliver("workflow_job", JOB)).status_code == 202
        assert "again=yes" not in caplog.text


async def test_a_delivery_needs_no_token_and_no_token_replaces_its_signature(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        assert (await hub.deliver("workflow_job", JOB)).status_code == 202
        answer = await hub.house.ask("POST", WEBHOOK, "admin", content=JOB)
        assert answer.status_code == 401


# ---- what is refused


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        "sha256=",
        signature_of(JOB)[:-2],
        signature_of(JOB) + "00",
        signature_of(JOB).removeprefix("sha256="),
        signature_of(JOB).replace("sha256", "sha1"),
        signature_of(JOB).upper(),
        signature_of(JOB + b" "),
        signature_of(JOB, "another secret"),
        signature_of(JOB, ""),
        "sha256=" + "é" * 64,
    ],
)
async def test_a_delivery_not_signed_with_the_secret_wakes_no_controller(tmp_path: Path, signature: str | None) -> None:
    async with a_hub(tmp_path) as hub:
        answer = await hub.deliver("workflow_job", JOB, x_hub_signature_256=signature)
        assert answer.status_code == 401
        assert hub.noted.runs == []


async def test_the_older_signature_is_not_enough(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        answer = await hub.deliver("workflow_job", JOB, x_hub_signature_256=None, x_hub_signature="sha1=" + "0" * 40)
        assert answer.status_code == 401


@pytest.mark.parametrize("event", ["push", "workflow_dispatch", "check_run", "", "x" * 5000, "workflow_job\x7f"])
async def test_an_event_of_another_kind_is_ignored(tmp_path: Path, event: str) -> None:
    async with a_hub(tmp_path) as hub:
        answer = await hub.deliver(event, b"{}")
        assert (answer.status_code, answer.json()["noted"]) == (202, False)
        assert hub.noted.runs == []


@pytest.mark.parametrize("name", ["acme/gadgets", "evil/widgets", "acme/widgets/..", "", "acme", "acme/wid gets"])
async def test_a_run_of_a_foreign_repository_is_ignored(tmp_path: Path, name: str) -> None:
    body = json.dumps({"repository": {"full_name": name}, "workflow_job": {"run_id": 1}}).encode()
    async with a_hub(tmp_path) as hub:
        answer = await hub.deliver("workflow_job", body)
        assert (answer.status_code, answer.json()["reason"]) == (202, "a repository outside github.scope")
        assert hub.noted.runs == []


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"\xff\xfe", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (DEEP, "body"),
        (b'{"repository":' + DEEP + b"}", "repository"),
        # From Python 3.14 on the size of the stack counts, not a depth: this is read, and the repository missed.
        (b'{"x":' + DEEP + b"}", "body" if sys.version_info < (3, 14) else "repository"),
        (b'{"workflow_job": {"run_id": 1}}', "repository"),
        (b'{"repository": {"full_name": "acme/widgets"}}', "workflow_job"),
        (b'{"repository": {"full_name": 7}, "workflow_job": {"run_id": 1}}', "repository.full_name"),
        (b'{"repository": {"full_name": "acme/widgets"}, "workflow_job": {"run_id": "1"}}', "workflow_job.run_id"),
        (b'{"repository": {"full_name": "acme/widgets"}, "workflow_job": {"run_id": 0}}', "workflow_job.run_id"),
    ],
)
async def test_a_malformed_delivery_is_refused_by_name(tmp_path: Path, body: bytes, field: str) -> None:
    async with a_hub(tmp_path) as hub:
        answer = await hub.deliver("workflow_job", body)
        assert (answer.status_code, answer.json()["field"]) == (400, field)
        assert hub.noted.runs == []


async def test_a_webhook_that_sends_forms_is_refused_and_the_answer_names_json(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        answer = await hub.deliver("workflow_job", b"payload=%7B%7D", content_type="application/x-www-form-urlencoded")
        assert answer.status_code == 400
        assert (answer.json()["field"], answer.json()["allowed"]) == ("content-type", "application/json")


async def test_a_delivery_over_the_limit_is_refused_signed_or_not(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        body = JOB + b" " * LARGEST
        for signature in (signature_of(body), None):
            assert (await hub.deliver("workflow_job", body, x_hub_signature_256=signature)).status_code == 413
        assert hub.noted.runs == []


# ---- the settings


@pytest.mark.parametrize(
    "settings", [Settings(), replace(SETTINGS, github=replace(SETTINGS.github, webhook_secret=""))]
)
async def test_without_github_or_without_a_secret_there_is_no_such_endpoint(tmp_path: Path, settings: Settings) -> None:
    assert webhooks(settings) is None
    async with a_house(tmp_path, settings=settings) as house:
        house.context.verifiers = Verifiers(webhooks=webhooks(settings))
        answer = await house.ask("POST", WEBHOOK, content=JOB, headers={"x-hub-signature-256": signature_of(JOB, "")})
        assert answer.status_code == 404


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    assert read_secret("webhook-secret", f"file:{tmp_path}/secret") == SECRET
    assert read_secret("webhook-secret", SECRET) == SECRET


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff"])
def test_a_secrets_file_that_holds_none_is_named_with_its_setting(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    settings = replace(SETTINGS, github=Github(scope="acme", webhook_secret=f"file:{tmp_path}/secret"))
    with pytest.raises(ConfigError, match=r"github\.webhook-secret: .*/secret"):
        webhooks(settings)


@pytest.mark.parametrize(
    ("scope", "repository", "inside"),
    [
        ("acme/widgets", "acme/widgets", True),
        ("acme/widgets", "Acme/Widgets", True),
        ("acme/widgets", "acme/widgets2", False),
        ("acme", "acme/widgets", True),
        ("acme", "acme2/widgets", False),
        ("acme", "acme", False),
        ("", "acme/widgets", False),
        ("", "/", False),
    ],
)
def test_a_scope_is_a_repository_or_all_of_an_owner(scope: str, repository: str, inside: bool) -> None:
    assert covers(scope, repository) is inside


# ---- what is shown


async def test_no_answer_and_no_log_shows_a_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with a_hub(tmp_path) as hub:
        forged = "sha256=" + "ab" * 32
        answers = [
            await hub.deliver("workflow_job", JOB),
            await hub.deliver("workflow_job", b"{"),
            await hub.deliver("workflow_job", JOB, x_hub_signature_256=forged),
            await hub.deliver("push", JOB),
        ]
        said = caplog.text + "".join(answer.text for answer in answers) + repr(hub.house.context.verifiers)
        secrets = [SECRET, PAT, signature_of(JOB)[7:], forged[7:], signature_of(b"{")[7:]]
        assert [secret for secret in secrets if secret in said] == []
        assert "webhook received kind=workflow_job delivery=72d3162e" in caplog.text


async def test_what_a_caller_says_cannot_forge_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with a_hub(tmp_path) as hub:
        body = json.dumps(json.loads(JOB) | {"action": "queued\nwebhook: forged"}).encode()
        await hub.deliver("workflow_job", body, x_github_delivery="1\x85forged")
        assert "forged" in caplog.text
        assert [one for one in caplog.messages if "\n" in one or "\x85" in one] == []


def _rehomed(hub: GuardedService, repository: str) -> None:
    github = replace(SETTINGS.github, scope=repository)
    hub.house.context.verifiers = Verifiers(webhooks=webhooks(replace(SETTINGS, github=github)))


async def test_only_so_many_bodies_are_read_before_their_sender_is_known(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        hub.house.context.admission = Admission(unproved=1)
        with hub.house.context.admission.read_unproved():
            assert (await hub.deliver("workflow_job", JOB)).status_code == 429
        assert (await hub.deliver("workflow_job", JOB)).status_code == 202


# ---- which repository it is from


def _from_repository(id: object, name: str = "acme/widgets", action: str = "queued") -> bytes:
    repository = {"full_name": name, "id": id}
    return json.dumps({"action": action, "repository": repository, "workflow_job": {"run_id": 4711}}).encode()


@pytest.mark.parametrize("action", ["queued", "completed"])
async def test_a_delivery_shows_the_id_of_its_repository(tmp_path: Path, action: str) -> None:
    async with a_hub(tmp_path) as hub:
        assert (await hub.deliver("workflow_job", _from_repository(42, action=action))).status_code == 202
        (seen,) = hub.house.memory.tables.repositories.values()
        assert (seen.name, seen.ci_id, seen.others) == ("acme/widgets", 42, ())


async def test_a_delivery_of_a_repository_that_was_created_again_does_not_change_what_the_name_means(
    tmp_path: Path,
) -> None:
    async with a_hub(tmp_path) as hub:
        for id in (42, 43, 42, 43):
            assert (await hub.deliver("workflow_job", _from_repository(id))).status_code == 202
        (seen,) = hub.house.memory.tables.repositories.values()
        assert (seen.ci_id, seen.others) == (42, (43,))
        needs = await hub.house.ports.records.repositories(["acme/widgets"])
        assert needs["acme/widgets"] == seen


async def test_a_repository_that_deliveries_have_named_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_hub(tmp_path) as hub:
        await hub.deliver("workflow_job", _from_repository(42))
        monkeypatch.setattr(type(hub.house.ports.records), "repositories", None)
        assert (await hub.deliver("workflow_job", _from_repository(42))).status_code == 202


async def test_a_delivery_counts_although_the_store_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*names: object) -> None:
        raise Unavailable("the store does not answer")

    async with a_hub(tmp_path) as hub:
        with monkeypatch.context() as broken:
            broken.setattr(type(hub.house.ports.records), "repositories", away)
            answer = await hub.deliver("workflow_job", _from_repository(42, action="completed"))
        assert (answer.status_code, hub.noted.runs) == (202, [("acme/widgets", "4711")])
        assert "id of a repository is not noted" in caplog.text
        await hub.deliver("workflow_job", _from_repository(42))
        assert len(hub.house.memory.tables.repositories) == 1


async def test_a_repository_outside_the_scope_is_not_noted(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        await hub.deliver("workflow_job", _from_repository(42, "evil/widgets"))
        assert hub.house.memory.tables.repositories == {}


@pytest.mark.parametrize("id", ["42", 0, -1, 10**18, 4.2])
async def test_an_id_that_github_does_not_send_is_refused_by_name(tmp_path: Path, id: object) -> None:
    async with a_hub(tmp_path) as hub:
        answer = await hub.deliver("workflow_job", _from_repository(id))
        assert (answer.status_code, answer.json()["field"]) == (400, "repository.id")


# ---- scale sets


def _queued(*labels: str, action: str = "queued") -> bytes:
    job = {"run_id": 4711, "labels": list(labels)}
    return json.dumps({"action": action, "repository": {"full_name": "acme/widgets"}, "workflow_job": job}).encode()


async def test_the_labels_of_a_queued_job_are_noted_for_scale_sets_and_those_of_no_other_action(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[list[str], str]] = []

    def note_queued(labels: Sequence[str], repository: str) -> bool:
        noted.append((list(labels), repository))
        return list(labels) == ["bullpen-small"]

    async with a_hub(tmp_path) as hub:
        monkeypatch.setattr(hub.house.context.service.sets, "note_queued", note_queued)
        for body, is_noted in (
            (_queued("bullpen-small"), True),
            (_queued("self-hosted", "bullpen-small"), False),
            (_queued("bullpen-small", action="in_progress"), False),
            (_queued(), False),
        ):
            answer = await hub.deliver("workflow_job", body)
            assert (answer.status_code, answer.json()["noted"]) == (202, is_noted)
        of = "acme/widgets"
        assert noted == [(["bullpen-small"], of), (["self-hosted", "bullpen-small"], of), ([], of)]
