"""The service of scale sets over HTTP, as GitHub's own client speaks to it.

    POST /api/v3/actions/runner-registration     RemoteAuth registration token    where the service is, and its JWT
    <service>/_apis/…                            Bearer JWT                       groups, sets, sessions, runners
    <queue>                                      Bearer token of the session      messages; only a poll waits

The two addresses are GitHub's own, or with `is_enterprise` those of an Enterprise Server. Requests that GitHub's client
would not send are violations, as requests are that GitHub's description does not know.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from datetime import timedelta

import jwt

from fakes.github.scale_sets.operations import Operations
from fakes.github.scale_sets.protocol import API_VERSION, QUEUES, SERVICES, SETS, SetRefusal, Violations, listed
from fakes.github.scale_sets.records import Json, Message, Session
from fakes.github.scale_sets.sets import Sets
from fakes.github.wire import WireAnswer, WireRequest

REGISTRATION = "/api/v3/actions/runner-registration"
JWT_LASTS = timedelta(hours=1)
KEY = "a key of the service's own, which no client knows"


class SetService:
    """The fields are what a test may change."""

    def __init__(self, sets: Sets) -> None:
        self.sets, self.state = sets, sets.state
        self.violations = Violations()
        self.operations = Operations(sets, self.violations)
        self.long_poll = 50.0  # seconds
        self.has_mark = False  # whether answers begin with a byte order mark
        self.empty_answers = 0  # polls that are answered with a success and nothing else
        self.requests: list[WireRequest] = []
        self._jwts: dict[str, str] = {}  # scope
        self._changed = asyncio.Event()

    def begin(self, url: str) -> None:
        """It is served at this address from now on."""
        self.operations.url = url
        self.sets.url = f"{url}{SERVICES[self.operations.is_enterprise]}{SETS}/acquirejobs"

    def owns(self, path: str) -> bool:
        return path == REGISTRATION or path.startswith((*SERVICES.values(), *QUEUES.values()))

    def wake(self) -> None:
        """Every poll looks again. To be called on the server's loop."""
        self._changed.set()
        self._changed = asyncio.Event()

    def revoke(self) -> None:
        self._jwts.clear()

    async def serve(self, request: WireRequest) -> WireAnswer:
        self.requests.append(request)
        try:
            answer = await self._served(request)
        except SetRefusal as no:
            answer = no.answer()
        if self.has_mark and answer.content is not None:
            answer.raw = b"\xef\xbb\xbf" + json.dumps(answer.content).encode()
        return answer

    async def _served(self, request: WireRequest) -> WireAnswer:
        if request.path == REGISTRATION:
            with self.state.lock:
                return self._connect(request)
        queue, service = QUEUES[self.operations.is_enterprise], SERVICES[self.operations.is_enterprise]
        if request.path.startswith(queue):
            return await self._queue(request, request.path.removeprefix(queue))
        if not request.path.startswith(service):
            self.violations.note(request, "an address of the other kind of server")
            raise SetRefusal(404)
        with self.state.lock:
            return self._call(request, request.path.removeprefix(service))

    # -------------------------------------------------------------------------------------------------- who may ask

    def _connect(self, request: WireRequest) -> WireAnswer:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        ticket = self.state.tickets.get(token)
        if kind != "RemoteAuth" or ticket is None or ticket.kind != "registration":
            raise SetRefusal(401)
        if ticket.expires_at <= self.state.clock():
            raise SetRefusal(401)
        asked = self.violations.body(request, "url", "runner_event")
        if asked != {"url": f"{self.operations.url}/{ticket.scope}", "runner_event": "register"}:
            self.violations.note(request, f"not the page of {ticket.scope}: {asked}")
        now = self.state.clock()
        claims = {"iat": now, "exp": now + JWT_LASTS, "n": len(self._jwts)}
        token = jwt.encode(claims, KEY)
        self._jwts[token] = ticket.scope
        return WireAnswer(200, {"url": self.operations.url + SERVICES[self.operations.is_enterprise], "token": token})

    def _scope(self, request: WireRequest) -> str:
        token = _bearer(request)
        if token not in self._jwts:
            raise SetRefusal(401)
        if jwt.decode(token, options={"verify_signature": False})["exp"] <= self.state.clock().timestamp():
            raise SetRefusal(401)
        return self._jwts[token]

    def _call(self, request: WireRequest, path: str) -> WireAnswer:
        if request.query.get("api-version") != API_VERSION:
            self.violations.note(request, f"no api-version={API_VERSION}")
            raise SetRefusal(400, "VssVersionNotSpecifiedException", "api-version is required")
        if found := re.fullmatch(rf"{SETS}/(\d+)/acquirejobs", path):
            return self._acquire(request, int(found[1]))
        return self.operations.answer(request, self._scope(request), path)

    # -------------------------------------------------------------------------------------------------------- sessions

    def _acquire(self, request: WireRequest, id: int) -> WireAnswer:
        found = self.sets.sets.get(id)
        if found is None or found.session is None:
            raise SetRefusal(404)
        self._check_token(request, found.session)
        asked = request.json()
        if not isinstance(asked, list) or not all(isinstance(one, int) for one in asked):
            self.violations.note(request, "no list of numbers")
            raise SetRefusal(400)
        return listed(self.sets.acquire(found, asked))

    async def _queue(self, request: WireRequest, rest: str) -> WireAnswer:
        with self.state.lock:
            session = self._holder(request)
            if rest and request.method == "DELETE":
                self.sets.acknowledge(session.set, int(rest.removeprefix("/")))
                return WireAnswer(204)
            if rest or request.method != "GET":
                self.violations.note(request, "the queue has no such operation")
                raise SetRefusal(404)
            self._check_poll(request)
            session.polls += 1
            self.sets.announce(session, int(request.headers["x-scalesetmaxcapacity"]))
        try:
            return await self._poll(request, int(request.query.get("lastMessageId", "0")))
        finally:
            with self.state.lock:
                session.polls -= 1
                session.seen_at = self.state.clock()

    async def _poll(self, request: WireRequest, last: int) -> WireAnswer:
        ends = asyncio.get_running_loop().time() + self.long_poll
        while True:
            changed = self._changed
            with self.state.lock:
                session = self._holder(request)
                if self.empty_answers:
                    self.empty_answers -= 1
                    return WireAnswer(200)
                if message := self.sets.next_message(session.set, last):
                    return _written(message)
            left = ends - asyncio.get_running_loop().time()
            if left <= 0:
                return WireAnswer(202)
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), left)

    def _holder(self, request: WireRequest) -> Session:
        """The session of the queue that is asked; 404 if it has ended."""
        named = request.query.get("sessionId")
        if named is None:
            self.violations.note(request, "the query of the queue's address was lost")
        for found in self.sets.sets.values():
            if found.session is not None and found.session.id == named:
                self._check_token(request, found.session)
                return found.session
        raise SetRefusal(404)

    def _check_token(self, request: WireRequest, session: Session) -> None:
        if _bearer(request) != session.token or session.token_ends <= self.state.clock():
            raise SetRefusal(401)

    def _check_poll(self, request: WireRequest) -> None:
        if request.headers.get("accept") != f"application/json; api-version={API_VERSION}":
            self.violations.note(request, "a poll accepts application/json with the version")
        if not request.headers.get("x-scalesetmaxcapacity", "").isdigit():
            self.violations.note(request, "a poll announces its capacity")
            raise SetRefusal(400, "VssPropertyValidationException", "X-ScaleSetMaxCapacity is required")
        if request.query.get("lastMessageId") == "0":
            self.violations.note(request, "lastMessageId is left out for 0")


def _written(message: Message) -> WireAnswer:
    """A message on the wire; what a test has garbled cannot be read, each time that it comes."""
    body = json.dumps(["an entry that is none", *message.entries] if message.garbled == "entry" else message.entries)
    content: Json = {
        "messageId": message.id,
        "messageType": "Mystery" if message.garbled == "type" else "RunnerScaleSetJobMessages",
        "body": "[{" if message.garbled == "body" else body,
        "statistics": message.statistics,
    }
    return WireAnswer(200, content, raw=b'{"messageId": ' if message.garbled == "message" else None)


def _bearer(request: WireRequest) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind == "Bearer" else ""
