"""`bullpen serve` and the simulated GitHub, both over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.github.hub import FakeGithub, JobSpec
from made_tokens import make_token
from server.served import ServeProcess, a_server

SECRET = "a secret of the webhook"

pytestmark = pytest.mark.slow


@pytest.fixture
def served(tmp_path: Path, github: FakeGithub) -> Iterator[ServeProcess]:
    """Without room for machines: what is provisioned here must not run anywhere."""
    (tmp_path / "webhook-secret").write_text(SECRET)
    said = {
        "engines.ci": "github",
        "github.scope": "acme/widgets",
        "github.url": github.url,
        "github.api-url": github.api_url,
        "github.token": github.token(),
        "github.webhook-secret": f"file:{tmp_path}/webhook-secret",
        "github.oidc-issuer": github.issuer,
        "local.capacity": "0",
    }
    settings = [word for name, value in said.items() for word in ("--set", f"{name}={value}")]
    make_token(tmp_path / "home")
    with a_server(tmp_path / "home", *settings) as served:
        yield served


def ask(
    served: ServeProcess, method: str, path: str, body: object = None, token: str = ""
) -> tuple[int, dict[str, Any]]:
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    return served.ask(method, path, body, headers)


def test_a_webhook_is_accepted_only_with_a_valid_signature(
    served: ServeProcess, github: FakeGithub, tmp_path: Path
) -> None:
    github.webhook(f"{served.url}/v1/github/webhook", SECRET)
    run = github.start_run("acme/widgets", [JobSpec("build", runs_on=("ubuntu-latest",))])
    github.hosted(run, "build", "success")
    github.settle_webhooks()
    assert {one.status for one in github.deliveries} == {202}
    assert f"run={run.id} repository=acme/widgets action=completed" in (tmp_path / "serve.log").read_text()
    stranger = github.webhook(f"{served.url}/v1/github/webhook", "another secret")
    github.start_run("acme/widgets", [JobSpec("build", runs_on=("ubuntu-latest",))])
    github.settle_webhooks()
    assert {one.status for one in stranger.deliveries} == {401}


def test_a_job_exchanges_its_oidc_token_and_provisions_for_its_run(
    served: ServeProcess, github: FakeGithub, tmp_path: Path
) -> None:
    identity = github.oidc_token(run_id="4711")
    status, answer = ask(served, "POST", "/v1/oidc/token", {"token": identity})
    assert (status, answer["trustDomain"]) == (200, f"acme/widgets/{github._state.repositories['acme/widgets'].id}")
    token = answer["token"]
    status, begun = ask(served, "POST", "/v1/runs/4711/release", token=token)
    assert status == 202
    assert ask(served, "GET", f"/v1/operations/{begun['id']}", token=token)[0] == 200
    assert ask(served, "GET", "/v1/runs/4712", token=token)[0] == 403
    assert ask(served, "POST", "/v1/oidc/token", {"token": github.oidc_token(forged=True)})[0] == 401
    assert ask(served, "POST", "/v1/oidc/token", {"token": github.oidc_token(repository="acme/x")})[0] == 401
    log = (tmp_path / "serve.log").read_text()
    assert [secret for secret in (identity, token, SECRET) if secret in log] == []


@pytest.mark.filterwarnings("ignore")
def test_githubs_endpoints_answer_every_request_as_described(served: ServeProcess) -> None:
    from server.described import check_described  # here: loading it takes a second, and only this test needs it

    found = check_described(served.url, lambda path: path in ("/v1/github/webhook", "/v1/oidc/token"))
    assert sorted(found) == ["POST /v1/github/webhook", "POST /v1/oidc/token"]
