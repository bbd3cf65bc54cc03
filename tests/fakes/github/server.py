"""The server: a thread with its own event loop, so that async tests and real processes can both call it.

A call of the API is answered in one go, under the state's lock: checked against the description, paid for, permitted,
carried out, and its answer checked again. Only a runner that asks for a job waits, and a listener of a scale set.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from fakes.github import flow, oidc, runs, validation, wire
from fakes.github.auth import IssuedCredentials
from fakes.github.calling import ApiCall, ApiRefusal
from fakes.github.faults import GithubFaults
from fakes.github.limits import Limits
from fakes.github.listening import RunnerSessions
from fakes.github.past import Past
from fakes.github.routes import routes
from fakes.github.scale_sets.service import SetService
from fakes.github.state import State
from fakes.github.views import shown_runner
from fakes.github.webhooks import Delivery, Webhooks
from fakes.github.wire import WireAnswer, WireRequest

PREFIX = "/api/v3"  # of GitHub Enterprise Server; api.github.com has none
API_VERSIONS = ("2022-11-28", "2026-03-10")
SWEEPS_EVERY = 0.05  # seconds
STARTS_WITHIN = 120.0  # seconds; it takes milliseconds


class GithubServer:
    def __init__(
        self,
        state: State,
        credentials: IssuedCredentials,
        limits: Limits,
        faults: GithubFaults,
        webhooks: Webhooks,
        set_service: SetService,
    ) -> None:
        self._state, self._credentials, self._limits = state, credentials, limits
        self._faults, self._webhooks, self._set_service = faults, webhooks, set_service
        self._routes = routes(credentials, limits)
        self._url = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self.past = Past(state)
        self.latency = 0.0  # seconds that a call and its answer are on their way, together
        self.calls: list[str] = []
        self.violations: list[str] = []

    # ------------------------------------------------------------------------------------------------------- its thread

    def start(self) -> str:
        """Returns the URL once it listens."""
        started: Future[str] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(started)), name="github", daemon=True)
        self._thread.start()
        return started.result(STARTS_WITHIN)

    def stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop and self._thread:
            loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(STARTS_WITHIN)

    async def _run(self, started: Future[str]) -> None:
        self._loop = asyncio.get_running_loop()
        listener = wire.LoopbackListener(self._serve)
        self._url = await listener.start()
        self._listening = RunnerSessions(self._state, self._url)
        self._webhooks.url, self._webhooks.check = self._url, self._check_webhook
        self._webhooks.wake = lambda: self._on_loop(self._send_webhooks)
        self._set_service.begin(self._url)
        self._state.on_change += [self.past.note, lambda: self._on_loop(self._listening.wake)]
        self._state.on_change.append(lambda: self._on_loop(self._set_service.wake))
        self.past.watch("runners", self._runners_now)
        self.past.watch("jobs", lambda: runs.jobs_now(self._state, self._url))
        started.set_result(self._url)
        while not self._stopping.is_set():
            with self._state.lock:
                flow.sweep(self._state)
                self._set_service.sets.sweep()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), SWEEPS_EVERY)
        listener.stop()
        await asyncio.sleep(0)  # the connections hear of it

    def _on_loop(self, call: Callable[[], None]) -> None:
        if self._loop:
            self._loop.call_soon_threadsafe(call)

    def _send_webhooks(self) -> None:
        task = asyncio.get_running_loop().create_task(self._webhooks.send_all())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    # --------------------------------------------------------------------------------------------------------- requests

    async def _serve(self, request: WireRequest) -> WireAnswer:
        try:
            if request.path.startswith("/_runner/"):
                return await self._listening.serve(request.path.removeprefix("/_runner/"), request.json())
            with self._state.lock:
                answer = oidc.serve(self._state, self._url, f"{self._url}/_services/token", request)
            return answer or await self._from_afar(request)
        except Exception as exc:  # a mistake here, or in the words of a runner, is nothing to be retried
            self.violations.append(f"{request.method} {request.target}: the fake itself failed with {exc!r}")
            return ApiRefusal(500, repr(exc)).answer()

    async def _from_afar(self, request: WireRequest) -> WireAnswer:
        """Half of the way is before the answer: a poll that waits is answered half a latency after its message came."""
        await asyncio.sleep(self.latency / 2)
        answer = await self._call(request)
        await asyncio.sleep(self.latency / 2)
        return answer

    async def _call(self, request: WireRequest) -> WireAnswer:
        target = request.target.removeprefix(PREFIX)
        self.calls.append(f"{request.method} {target}")
        rules = self._faults.of(self.calls[-1])
        for rule in rules:
            if rule.seconds:
                await asyncio.sleep(rule.seconds)
            if rule.status:
                return ApiRefusal(rule.status, rule.message).answer()
        if self._set_service.owns(request.path):
            answer = await self._set_service.serve(request)
        else:
            with self._state.lock:
                answer = self._answer(request)
        answer.is_lost = any(rule.is_lost for rule in rules)
        return answer

    def _answer(self, request: WireRequest) -> WireAnswer:
        path = request.path.removeprefix(PREFIX)
        operation = validation.find(request.method, path)
        if operation is None or operation.name not in self._routes:
            self._violated(request, ["the description, or this fake, has no such operation"])
            return ApiRefusal(404, "Not Found").answer()
        route = self._routes[operation.name]
        call = ApiCall(
            self._state, self.past, self._url, request, operation.name, path, operation.path, request.query, None
        )
        try:
            call.body = request.json()
            _check_headers(request)
            if wrong := validation.wrong_request(operation, call.query, call.body):
                self._violated(request, wrong)
                raise ApiRefusal(422, f"Invalid request. {'; '.join(wrong)}")
            caller = self._credentials.caller(request.headers.get("authorization", ""))
            call.account = caller.account if caller else "anonymous"
            call.app = caller.name if caller and caller.is_app_itself else ""
            self._limits.spend(call)
            route.admit(caller, call)
            answer = self._tagged(call, route.answer(call))
        except ValueError:
            answer = ApiRefusal(400, "Problems parsing JSON").answer()
        except ApiRefusal as refusal:
            answer = refusal.answer()
        self._violated(request, validation.wrong_answer(operation, answer))
        answer.headers = self._limits.headers(call) | answer.headers
        return answer

    def _tagged(self, call: ApiCall, answer: WireAnswer) -> WireAnswer:
        """An answer that the caller has already is not given, and not paid for."""
        if call.request.method != "GET" or answer.status != 200:
            return answer
        tag = f'W/"{hashlib.sha256(json.dumps(answer.content).encode()).hexdigest()}"'
        answer.headers["ETag"] = tag
        if call.request.headers.get("if-none-match") != tag:
            return answer
        self._limits.give_back(call)
        return WireAnswer(304, None, answer.headers)

    # ----------------------------------------------------------------------------------------------------------- checks

    def _violated(self, request: WireRequest, wrong: list[str]) -> None:
        self.violations += [f"{request.method} {request.target}: {one}" for one in wrong]

    def _check_webhook(self, delivery: Delivery) -> None:
        self.violations += validation.wrong_webhook(delivery.event, delivery.action, delivery.payload)

    def _runners_now(self) -> list[tuple[str, dict[str, Any]]]:
        ordered = sorted(self._state.runners.values(), key=lambda one: one.id)
        return [(one.scope.lower(), shown_runner(self._state, one)) for one in ordered]


def _check_headers(request: WireRequest) -> None:
    if not request.headers.get("user-agent"):
        raise ApiRefusal(
            403, "Request forbidden by administrative rules. Please make sure your request has a User-Agent."
        )
    version = request.headers.get("x-github-api-version", API_VERSIONS[0])
    if version not in API_VERSIONS:
        raise ApiRefusal(400, f"The API version {version} is not supported.")
