"""GitHub as the service meets it: an issuer of jobs' identities, webhooks, and a house that expects both."""

from __future__ import annotations

import asyncio
import base64
import functools
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from bullpen.config import Engines, Github, Settings
from bullpen.engines.github.oidc import Identities
from bullpen.engines.github.webhooks import webhooks
from bullpen.errors import Unavailable
from bullpen.ports.callers import Verifiers
from bullpen.workflows.controller import WorkflowController
from server.fixtures import House, a_house

ISSUER = "https://token.actions.githubusercontent.com"
SECRET = "the webhook's secret"
PAT = "ghp_of_the_control_plane"
SETTINGS = Settings(engines=Engines(ci="github"), github=Github(scope="acme/widgets", token=PAT, webhook_secret=SECRET))
WEBHOOK, EXCHANGE = "/v1/github/webhook", "/v1/oidc/token"


@functools.cache
def private_key(name: str) -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@dataclass
class Issuer:
    """Signs, publishes its keys, and counts the requests for them."""

    keys: list[str] = field(default_factory=lambda: ["first"])
    away: bool = False
    answer: bytes | None = None
    fetched: list[str] = field(default_factory=list)

    def token(self, now: float, *, key: str = "first", headers: dict[str, Any] | None = None, **changed: Any) -> str:
        """As a job would get it; a claim that is changed to None is left out."""
        headers = {"kid": key} | (headers or {})
        return jwt.encode(claims(now, **changed), private_key(key), algorithm="RS256", headers=headers)

    async def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        await asyncio.sleep(0.1)
        if self.away:
            raise Unavailable(f"{url}: did not answer")
        return self.jwks() if self.answer is None else self.answer

    def jwks(self) -> bytes:
        public = jwt.algorithms.RSAAlgorithm
        listed = [public.to_jwk(private_key(name).public_key(), as_dict=True) for name in self.keys]
        named = zip(self.keys, listed, strict=True)
        return json.dumps({"keys": [one | {"kid": name, "use": "sig", "alg": "RS256"} for name, one in named]}).encode()


def claims(now: float, **changed: Any) -> dict[str, Any]:
    """What GitHub says of a job that a push has set off."""
    usual = {
        "iss": ISSUER,
        "aud": "bullpen",
        "sub": "repo:acme/widgets:ref:refs/heads/main",
        "jti": "6f0b3f2a",
        "iat": int(now),
        "nbf": int(now) - 300,
        "exp": int(now) + 300,
        "repository": "acme/widgets",
        "repository_id": "42",
        "repository_owner": "acme",
        "run_id": "4711",
        "run_attempt": "1",
        "run_number": "12",
        "event_name": "push",
        "ref": "refs/heads/main",
        "actor": "octocat",
        "runner_environment": "self-hosted",
    }
    return {name: value for name, value in (usual | changed).items() if value is not None}


def unsigned(header: dict[str, Any], payload: dict[str, Any], signature: bytes = b"") -> str:
    """A token made by hand, for those that no library would make."""
    parts = (json.dumps(header).encode(), json.dumps(payload).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


class NotingController(WorkflowController):
    """Serves no run, and remembers which runs were noted."""

    def __init__(self, house: House) -> None:
        super().__init__(house.ports, house.context.settings)
        self.runs: list[tuple[str, str]] = []

    def note(self, repository: str, run: str) -> None:
        self.runs.append((repository, run))

    def note_job(self, repository: str, run: str) -> None:
        self.note(repository, run)


@dataclass
class GuardedService:
    """A guarded service with GitHub as its CI."""

    house: House
    issuer: Issuer
    noted: NotingController

    @property
    def now(self) -> float:
        return self.house.ports.clock.now().timestamp()

    async def exchange(self, token: str | None = None, **changed: Any) -> httpx.Response:
        return await self.house.ask("POST", EXCHANGE, json={"token": token or self.issuer.token(self.now, **changed)})

    async def run_token(self, **changed: Any) -> str:
        answer = await self.exchange(**changed)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])

    async def deliver(self, event: str, body: bytes, **headers: str | None) -> httpx.Response:
        """As GitHub would; a header that is changed to None is left out."""
        usual = {
            "x-github-event": event,
            "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
            "x-hub-signature-256": signature_of(body),
            "content-type": "application/json",
        }
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value.encode("latin-1") for name, value in (usual | changed).items() if value is not None}
        return await self.house.ask("POST", WEBHOOK, content=body, headers=sent)


def signature_of(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()


@asynccontextmanager
async def a_hub(home: Path, settings: Settings = SETTINGS) -> AsyncIterator[GuardedService]:
    issuer = Issuer()
    async with a_house(home, settings=settings) as house:
        house.guard()
        house.context.verifiers = Verifiers(jobs=Identities(settings.github, issuer.fetch), webhooks=webhooks(settings))
        noted = house.context.service.runs = NotingController(house)
        yield GuardedService(house, issuer, noted)
