"""Runners as the API has them."""

import base64
import json
from datetime import datetime, timedelta

import httpx
import pytest

from fakes.github.acting import RUNNERS, WIDGETS, RunnerSide, caller
from fakes.github.hub import FakeGithub, JobSpec

JIT = f"{RUNNERS}/generate-jitconfig"


def a_jit(**changes: object) -> dict[str, object]:
    return {"name": "jit-1", "runner_group_id": 1, "labels": ["4711"]} | changes


@pytest.mark.parametrize("kind", ["registration-token", "remove-token"])
def test_a_token_to_register_or_remove_lasts_an_hour(api: httpx.Client, github: FakeGithub, kind: str) -> None:
    answer = api.post(f"{RUNNERS}/{kind}")
    left = datetime.fromisoformat(answer.json()["expires_at"]) - github.clock()
    assert answer.status_code == 201
    assert timedelta(minutes=59) < left <= timedelta(hours=1)


def test_a_list_of_runners_can_be_asked_for_one_name(api: httpx.Client, github: FakeGithub) -> None:
    for name in ("r-1", "r-10"):
        github.add_runner("acme/widgets", name, ["4711"])
    found = api.get(RUNNERS, params={"name": "r-1"}).json()
    assert [runner["name"] for runner in found["runners"]] == ["r-1"]
    assert found["total_count"] == 1


def test_a_runner_is_shown_with_labels_status_and_version(api: httpx.Client, github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "r-1", ["self-hosted", "4711"], version="2.335.0")
    shown = api.get(RUNNERS).json()["runners"][0]
    assert [(label["name"], label["type"]) for label in shown["labels"]] == [
        ("self-hosted", "read-only"),
        ("4711", "custom"),
    ]
    assert (shown["status"], shown["busy"], shown["version"]) == ("online", False, "2.335.0")
    assert api.get(f"{RUNNERS}/{shown['id']}").json() == shown


def test_runners_of_an_organisation_are_not_those_of_its_repository(api: httpx.Client, github: FakeGithub) -> None:
    runner = github.add_runner("acme", "r-1")
    assert api.get(RUNNERS).json()["total_count"] == 0
    assert api.get("/orgs/acme/actions/runners").json()["total_count"] == 1
    assert api.delete(f"{RUNNERS}/{runner.id}").status_code == 404


def test_a_free_runner_is_deleted_and_is_gone(api: httpx.Client, github: FakeGithub) -> None:
    runner = github.add_runner("acme/widgets", "r-1")
    assert api.delete(f"{RUNNERS}/{runner.id}").status_code == 204
    assert api.delete(f"{RUNNERS}/{runner.id}").status_code == 404
    assert github.runners() == []


def test_a_busy_runner_is_not_deleted_not_even_when_it_is_offline(api: httpx.Client, github: FakeGithub) -> None:
    runner = github.add_runner("acme/widgets", "r-1", ["x"])
    run = github.start_run("acme/widgets", [JobSpec("build", ("x",))])
    github.begin(run, "build", "r-1")
    github.disconnect("r-1")
    refused = api.delete(f"{RUNNERS}/{runner.id}")
    assert refused.status_code == 422
    assert "still running a job" in refused.json()["message"]
    assert (api.get(f"{RUNNERS}/{runner.id}").json()["status"], runner.busy) == ("offline", True)


def test_a_jit_registration_has_exactly_the_labels_asked_for(api: httpx.Client, github: FakeGithub) -> None:
    answer = api.post(JIT, json=a_jit(work_folder="w"))
    config = json.loads(base64.b64decode(answer.json()["encoded_jit_config"]))
    assert answer.status_code == 201
    assert [label["name"] for label in answer.json()["runner"]["labels"]] == ["4711"]
    assert (config["url"], config["name"], config["work"]) == (f"{github.url}/acme/widgets", "jit-1", "w")
    assert github.runner("jit-1").ephemeral


@pytest.mark.parametrize(
    ("changes", "status"), [({}, 409), ({"name": "n", "runner_group_id": 9}, 404), ({"name": "n" * 65}, 422)]
)
def test_a_jit_registration_is_refused(
    api: httpx.Client, github: FakeGithub, changes: dict[str, object], status: int
) -> None:
    github.add_runner("acme/widgets", "jit-1")
    assert api.post(JIT, json=a_jit(**changes)).status_code == status
    assert len(github.runners()) == 1


def test_a_jit_runner_serves_one_job_and_is_removed(api: httpx.Client, github: FakeGithub) -> None:
    listener = RunnerSide.of_jit(api, github, api.post(JIT, json=a_jit()).json()["encoded_jit_config"])
    run = github.start_run("acme/widgets", [JobSpec("a", ("4711",)), JobSpec("b", ("4711",))])
    assert listener.listen().status_code == 200
    job = listener.next()
    listener.tell("started", job)
    listener.tell("finish", job, conclusion="success")
    assert github.runners() == []
    assert listener.say("next", **listener.known, wait=0).status_code == 404
    assert [one.status for one in run.jobs()] == ["completed", "queued"]


def test_labels_are_shown_replaced_added_and_removed(api: httpx.Client, github: FakeGithub) -> None:
    labels = f"{RUNNERS}/{github.add_runner('acme/widgets', 'r-1', ['self-hosted', 'a']).id}/labels"

    def names(answer: httpx.Response) -> list[str]:
        return [label["name"] for label in answer.json()["labels"]]

    assert names(api.get(labels)) == ["self-hosted", "a"]
    assert names(api.post(labels, json={"labels": ["b"]})) == ["self-hosted", "a", "b"]
    assert names(api.put(labels, json={"labels": ["self-hosted", "c"]})) == ["self-hosted", "c"]
    assert names(api.request("DELETE", labels)) == ["self-hosted"]


def test_groups_of_an_organisation_are_listed_the_default_first(api: httpx.Client, github: FakeGithub) -> None:
    github.add_group("acme", "fast", ["acme/widgets"])
    found = api.get("/orgs/acme/actions/runner-groups").json()["runner_groups"]
    assert [(one["id"], one["name"], one["default"]) for one in found] == [(1, "Default", True), (2, "fast", False)]


@pytest.mark.parametrize(("ephemeral", "days"), [(True, 1), (False, 14)])
def test_a_runner_that_never_connects_again_is_forgotten(github: FakeGithub, ephemeral: bool, days: int) -> None:
    github.add_runner("acme/widgets", "r-1", online=False, ephemeral=ephemeral)
    github.advance(days * 86400 - 60)
    assert len(github.runners()) == 1
    github.advance(120)
    assert github.runners() == []


def test_releases_of_the_runner_are_public_and_newest_first(github: FakeGithub) -> None:
    github.release("2.335.0", days_ago=40)
    github.release("2.336.0", days_ago=3)
    with httpx.Client(base_url=github.api_url, trust_env=False) as api:
        assert [one["tag_name"] for one in api.get("/repos/actions/runner/releases").json()] == ["v2.336.0", "v2.335.0"]
        assert api.get("/repos/actions/runner/releases/latest").json()["tag_name"] == "v2.336.0"


def test_a_repository_and_an_organisation_are_described(github: FakeGithub) -> None:
    with caller(github) as api:
        shown = api.get(WIDGETS).json()
        assert (shown["full_name"], shown["private"]) == ("acme/widgets", True)
        assert api.get("/orgs/acme").json()["login"] == "acme"
