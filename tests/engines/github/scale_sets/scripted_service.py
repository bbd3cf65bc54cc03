"""A service for scale sets that answers as told, on virtual time: for what a real one does rarely."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any

import httpx

from bullpen.config import Github
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.scale_sets.port import GithubScaleSets
from bullpen.engines.memory import LoopClock

TENANT = "https://pipelines.actions.githubusercontent.com/abc/"
QUEUE = "https://broker.actions.githubusercontent.com/scalesets/message"
NO_STATISTICS = {"totalAssignedJobs": 0, "totalRunningJobs": 0}
Answer = Callable[[httpx.Request], httpx.Response] | Callable[[httpx.Request], Awaitable[httpx.Response]]


def jwt(number: int, lasts: float) -> str:
    """A token that says how long it lasts, and nothing else that is true."""
    payload = json.dumps({"iat": 1_000, "exp": 1_000 + lasts, "n": number}).encode()
    return f"e30.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.sig"


class ScriptedService:
    """`on` says how requests are answered whose method and path match a pattern; the latest rule counts."""

    def __init__(self, *, lasts: float = 3600.0, queue_lasts: float = 3000.0) -> None:
        self.requests: list[httpx.Request] = []
        self.lasts, self.queue_lasts = lasts, queue_lasts
        self.tenant, self.queue = TENANT, QUEUE
        self.jwts = self.queue_tokens = 0
        self._rules: list[tuple[str, Answer]] = []
        settings = Github(scope="acme/widgets", token="t0ken")
        clock = LoopClock()
        self.client = GithubClient(settings, clock, httpx.MockTransport(self._answer))
        self.sets = GithubScaleSets(self.client, clock)
        self.on("POST */registration-token", lambda _: _json({"token": "REG", "expires_at": "2031-01-01T00:00:00Z"}))
        self.on("POST */runner-registration", lambda _: self._connection())
        self.on("POST */sessions", lambda _: self.session())
        self.on("PATCH */sessions/*", lambda _: self.session())
        self.on("DELETE *", lambda _: httpx.Response(204))
        self.on("GET */scalesets/message*", lambda _: httpx.Response(202))

    def on(self, pattern: str, answer: Answer) -> None:
        self._rules.append((pattern, answer))

    def once(self, pattern: str, *answers: httpx.Response) -> None:
        """The next requests are answered so, one after the other, and those after them as before."""
        left = list(answers)
        before = self._rule_of(pattern.replace("*", "x"), pattern)
        self.on(pattern, lambda request: left.pop(0) if left else before(request))

    def asked(self, pattern: str) -> list[httpx.Request]:
        return [one for one in self.requests if fnmatchcase(f"{one.method} {one.url.path}", pattern)]

    def session(self, **changes: Any) -> httpx.Response:
        self.queue_tokens += 1
        shown = {
            "sessionId": "s-1",
            "messageQueueUrl": self.queue,
            "messageQueueAccessToken": jwt(self.queue_tokens, self.queue_lasts),
            "statistics": NO_STATISTICS,
        }
        return _json(shown | changes)

    def _connection(self) -> httpx.Response:
        self.jwts += 1
        return _json({"url": self.tenant, "token": jwt(self.jwts, self.lasts)})

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._rule_of(f"{request.method} {request.url.path}")(request)
        return answer if isinstance(answer, httpx.Response) else await answer

    def _rule_of(self, called: str, pattern: str = "") -> Any:
        for known, answer in reversed(self._rules):
            if known == pattern or fnmatchcase(called, known):
                return answer
        return lambda _: httpx.Response(404, json={"typeName": "X.NotFoundException", "message": "not there"})


def _json(content: Any) -> httpx.Response:
    return httpx.Response(200, json=content)
