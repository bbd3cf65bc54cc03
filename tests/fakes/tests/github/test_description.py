"""What is kept of GitHub's description, and that it is enforced."""

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from fakes.github import description, validation
from fakes.github.acting import RUNNERS, WIDGETS, caller
from fakes.github.auth import IssuedCredentials
from fakes.github.fixtures import serving
from fakes.github.hub import FakeGithub, JobSpec
from fakes.github.limits import Limits
from fakes.github.routes import routes
from fakes.github.state import State
from fakes.github.wire import WireAnswer


def test_every_route_is_described_and_every_described_operation_is_served(github_described: None) -> None:
    state = State(lease=600.0)
    served = set(routes(IssuedCredentials(state), Limits(state)))
    assert served == {f"{method} {path}" for method, path in description.OPERATIONS}


def test_a_property_that_is_called_like_prose_survives_the_reduction() -> None:
    schema = {"description": "prose", "properties": {"description": {"type": "string", "description": "prose"}}}
    assert description.bare(schema) == {"properties": {"description": {"type": "string"}}}


def test_an_enumeration_that_may_be_null_may_be_null() -> None:
    assert description.bare({"nullable": True, "enum": ["a"]})["enum"] == ["a", None]


def test_the_reduced_description_is_made_once(github_described: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "_read", lambda *_: pytest.fail("it was made already"))
    assert description.fetch().stat().st_size < 1_000_000


def test_what_cannot_be_fetched_is_said_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(description.DescriptionMissing, match="install npm"):
        description.fetch()
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "complaint"),
    [
        ("GET", f"{RUNNERS}?per_pge=5", None, "no parameter per_pge"),
        ("GET", f"{RUNNERS}?page=two", None, "'two' is not of type 'integer'"),
        ("GET", f"{RUNNERS}/nine", None, "'nine' is not of type 'integer'"),
        ("POST", f"{RUNNERS}/registration-token", {"x": 1}, "takes no body"),
        ("POST", f"{RUNNERS}/generate-jitconfig", {"name": "n", "labels": ["a"]}, "'runner_group_id' is a required"),
        ("POST", f"{RUNNERS}/generate-jitconfig", None, "body is missing"),
        (
            "POST",
            f"{RUNNERS}/generate-jitconfig",
            {"name": "n", "runner_group_id": 1, "labels": []},
            "should be non-empty",
        ),
        (
            "POST",
            f"{RUNNERS}/generate-jitconfig",
            {"name": "n", "runner_group_id": 1, "labels": ["a"], "lable": "a"},
            "there is no lable",
        ),
        ("GET", f"{WIDGETS}/actions/runers", None, "no such operation"),
        ("PATCH", RUNNERS, None, "no such operation"),
    ],
)
def test_a_request_that_github_does_not_describe_fails_the_test_that_made_it(
    github_described: None, method: str, path: str, body: object, complaint: str
) -> None:
    test = ExitStack()
    hub = test.enter_context(serving())
    with caller(hub) as api:
        assert api.request(method, path, json=body).status_code in (404, 422)
    with pytest.raises(AssertionError, match=complaint):
        test.close()


def test_an_answer_that_github_does_not_describe_fails_the_test_that_caused_it(
    github_described: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = ExitStack()
    hub = test.enter_context(serving())
    hub.add_runner("acme/widgets", "r-1")
    monkeypatch.setattr("fakes.github.server.shown_runner", lambda *_: {"id": 1, "name": "r-1"})
    with caller(hub) as api:
        api.get(RUNNERS)
    with pytest.raises(AssertionError, match="'busy' is a required property"):
        test.close()


def test_a_webhook_that_github_does_not_describe_fails_the_test_that_caused_it(
    github_described: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fakes.github.webhooks.payload", lambda *_: {"action": "queued"})
    test = ExitStack()
    hub = test.enter_context(serving())
    hub.webhook("http://127.0.0.1:9/", "secret")
    hub.start_run("acme/widgets", [JobSpec("build")])
    with pytest.raises(AssertionError, match="'workflow_job' is a required property"):
        test.close()


def test_a_status_that_the_operation_does_not_have_is_a_violation(github_described: None) -> None:
    operation = validation.find("DELETE", f"{RUNNERS}/1")
    assert operation
    assert validation.wrong_answer(operation, WireAnswer(200, {})) == ["200 is no answer of it"]
    assert validation.wrong_answer(operation, WireAnswer(204)) == []


def test_it_serves_with_and_without_the_prefix_of_an_enterprise_server(api: httpx.Client, github: FakeGithub) -> None:
    assert api.get(RUNNERS).json() == api.get(f"{github.url}{RUNNERS}").json() == {"total_count": 0, "runners": []}
