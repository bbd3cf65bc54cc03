"""A proxy that records what a client of scale sets sends, to compare the requests of two clients, or to two services.

    A/…   GitHub's API            T/…   the service, where GitHub says that it is            Q   the queue of a session

Ids are left out, and of the headers everything that no service of scale sets looks at.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
from aiohttp import web

NOT_PASSED_ON = {"connection", "content-length", "transfer-encoding", "keep-alive", "host", "accept-encoding"}
STARTING_TAKES = 120.0  # seconds; it takes milliseconds


@dataclass(frozen=True, slots=True, order=True)
class RecordedRequest:
    method: str
    path: str
    query: tuple[str, ...]  # the names
    authorization: str  # the scheme
    accept: str
    content_type: str
    announces: bool  # a capacity
    body: tuple[str, ...]  # the names of its fields; `[]` for a list


class ExchangeRecorder:
    """`url` stands in for the service's. The latter's own address in answers is replaced."""

    def __init__(self, target: str) -> None:
        self.target, self.url = target, ""
        self._seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self._services: list[str] = []
        self._queues: list[str] = []

    def requests(self) -> list[RecordedRequest]:
        """Everything that was sent, each kind once, in order of the names."""
        return sorted({self._recorded(*one) for one in list(self._seen)})

    async def serve(self, started: Future[asyncio.AbstractEventLoop], stopping: asyncio.Event) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(STARTING_TAKES)) as self._client:
            runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1.0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            started.set_result(asyncio.get_running_loop())
            await stopping.wait()
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self._seen.append((request.method, request.raw_path, headers, body))
        passed_on = {name: value for name, value in headers.items() if name not in NOT_PASSED_ON}
        # Clients send the page that they know as their own, and services answer with their own address.
        sent = body.replace(self.url.encode(), self.target.encode())
        url = f"{self.target}{request.raw_path}"
        async with self._client.request(request.method, url, headers=passed_on, data=sent) as answer:
            content = (await answer.read()).replace(self.target.encode(), self.url.encode())
            self._learn(request.path, content)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
            return web.Response(status=answer.status, headers=kept, body=content)

    def _learn(self, path: str, content: bytes) -> None:
        if not path.endswith(("/runner-registration", "/sessions")) and "/sessions/" not in path:
            return
        found = json.loads(content) if content else {}
        if path.endswith("/runner-registration") and "url" in found:
            self._services.append(found["url"].removeprefix(self.url).rstrip("/"))
        if "messageQueueUrl" in found:
            self._queues.append(found["messageQueueUrl"].removeprefix(self.url))

    def _recorded(self, method: str, target: str, headers: dict[str, str], body: bytes) -> RecordedRequest:
        path, own = self._named(urlsplit(target).path, target)
        names = [name for name, _ in parse_qsl(urlsplit(target).query, keep_blank_values=True) if name not in own]
        return RecordedRequest(
            method,
            path,
            tuple(sorted(names)),
            headers.get("authorization", "").partition(" ")[0],
            headers.get("accept", ""),
            headers.get("content-type", ""),
            "x-scalesetmaxcapacity" in headers,
            _fields(json.loads(body)) if body else (),
        )

    def _named(self, path: str, target: str) -> tuple[str, list[str]]:
        """The path without addresses and ids, and the names of what its address has in its query."""
        for queue in self._queues:
            found = urlsplit(queue)
            if path == found.path or path.startswith(f"{found.path}/"):
                rest = re.sub(r"\d+", "{id}", path.removeprefix(found.path))
                return f"Q{rest}", [name for name, _ in parse_qsl(found.query)]
        for service in self._services:
            if path.startswith(f"{service}/_apis"):
                path = f"T{path.removeprefix(service)}"
        path = re.sub(r"^/api/v3", "A", path)
        path = re.sub(r"/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "/{session}", path)
        return re.sub(r"/(?!pools/)(\d+)(?=/|$)", lambda one: one[0] if one[1] == "0" else "/{id}", path), []


def _fields(body: Any) -> tuple[str, ...]:
    if isinstance(body, list):
        return ("[]", *sorted({name for one in body if isinstance(one, dict) for name in one}))
    return tuple(
        sorted(
            f"{name}.{inner}" if isinstance(value, dict | list) else name
            for name, value in body.items()
            for inner in (_fields(value) if isinstance(value, dict | list) else ("",))
        )
    )


@contextmanager
def recording(target: str) -> Iterator[ExchangeRecorder]:
    recorder, started, stopping = ExchangeRecorder(target), Future[asyncio.AbstractEventLoop](), asyncio.Event()
    thread = threading.Thread(target=lambda: asyncio.run(recorder.serve(started, stopping)))
    thread.start()
    loop = started.result(STARTING_TAKES)
    try:
        yield recorder
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
