"""An agent without a token asks for one, shows it, and asks again when the service does not know it any more."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bullpen.agent.aws.identity import Attested, proof_of
from bullpen.agent.aws.imds import Metadata, NoMetadata
from bullpen.agent.config import Config
from bullpen.agent.store.connection import Caller, FixedToken, ServiceAway
from bullpen.agent.store.http import _badge

CREDENTIALS = ("ASIAIOSFODNN7EXAMPLE", "secret", "c2Vzc2lvbg==")


@dataclass
class Service:
    """Gives out t1, t2, …, and knows the last one only."""

    url: str = ""
    given: int = 0
    gives: int = 200
    requests: list[tuple[str, str | None, Any]] = field(default_factory=list)


@contextmanager
def a_service() -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.requests.append((self.path, self.headers["authorization"], body))
            if self.path == "/v1/agents/token":
                service.given += service.gives == 200
                self._say(service.gives, {"token": f"t{service.given}"})
            else:
                self._say(200 if self.headers["authorization"] == f"Bearer t{service.given}" else 401, {"error": ""})

        def _say(self, status: int, answer: dict[str, str]) -> None:
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        service.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield service
        server.shutdown()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(random, "uniform", lambda low, high: 0.0)  # no pauses
    monkeypatch.setattr(Metadata, "credentials", lambda self: CREDENTIALS)
    with a_service() as service:
        yield service


def a_config(service: Service, **more: Any) -> Config:
    fixed: dict[str, Any] = {"serve_url": service.url, "region": "eu-central-1", "imds": True}
    return Config("i-1", Path("/"), Path("/"), 5.0, 60.0, 60.0, "", 1.0, (), **(fixed | more))


def a_caller(service: Service) -> tuple[Caller, Attested]:
    shown = Attested(a_config(service), Metadata())
    return Caller(service.url, shown, 5.0), shown


def test_a_token_is_fetched_once_and_shown_with_every_request(service: Service) -> None:
    caller, _ = a_caller(service)
    for _ in range(2):
        assert caller.call("POST", "/v1/heartbeats", {})[0] == 200
    assert [path for path, _, _ in service.requests] == ["/v1/agents/token", "/v1/heartbeats", "/v1/heartbeats"]
    _, authorization, body = service.requests[0]
    assert authorization is None
    assert sorted(body) == ["authorization", "date", "sessionToken"]


def test_a_token_that_the_service_does_not_know_any_more_is_replaced(service: Service) -> None:
    caller, _ = a_caller(service)
    caller.call("POST", "/v1/heartbeats", {})
    service.given += 1  # as if its secret were another one now
    with pytest.raises(ServiceAway):
        caller.call("POST", "/v1/heartbeats", {})
    assert caller.call("POST", "/v1/heartbeats", {})[0] == 200
    assert service.given == 3


def test_a_late_refusal_of_an_old_token_does_not_cost_the_new_one(service: Service) -> None:
    _, shown = a_caller(service)
    old = shown.token()
    shown.refused(old)
    new = shown.token()
    shown.refused(old)
    assert shown.token() == new != old


@pytest.mark.parametrize("status", [403, 404, 429, 503])
def test_without_a_token_the_service_is_away_and_asked_again_later(service: Service, status: int) -> None:
    service.gives = status
    caller, _ = a_caller(service)
    with pytest.raises(ServiceAway):
        caller.call("POST", "/v1/heartbeats", {})
    service.gives = 200
    assert caller.call("POST", "/v1/heartbeats", {})[0] == 200


def test_without_credentials_the_service_is_away(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: Metadata) -> None:
        raise NoMetadata("no role")

    monkeypatch.setattr(Metadata, "credentials", none)
    with pytest.raises(ServiceAway, match="no role"):
        a_caller(service)[0].call("POST", "/v1/heartbeats", {})


def test_after_a_refusal_the_caller_waits_before_its_next_attempt(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    service.gives = 503
    caller, _ = a_caller(service)
    with pytest.raises(ServiceAway):
        caller.call("POST", "/v1/heartbeats", {})
    assert caller.pause_left() > 0


def test_an_agent_that_was_given_a_token_shows_it_and_one_on_ec2_proves_itself(service: Service) -> None:
    assert isinstance(_badge(a_config(service, token="bpa_x")), FixedToken)
    assert isinstance(_badge(a_config(service, imds=False)), FixedToken)
    assert isinstance(_badge(a_config(service)), Attested)


def test_a_proof_says_nothing_of_the_secret(service: Service) -> None:
    found = proof_of(CREDENTIALS, "eu-central-1", "", service.url, 0.0)
    assert "secret" not in json.dumps(found)
    assert found["date"] == "19700101T000000Z"
