"""HTTP on loopback: requests in, answers out, connections kept alive. It knows nothing of GitHub."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httptools

LARGEST = 4 * 1024 * 1024  # bytes of a request


@dataclass
class WireRequest:
    method: str = ""
    target: str = ""
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def json(self) -> Any:
        """ValueError if it is none; None if there is no body."""
        return json.loads(self.body) if self.body else None


@dataclass
class WireAnswer:
    status: int
    content: Any = None  # None: no body
    headers: dict[str, str] = field(default_factory=dict)
    is_lost: bool = False  # the connection breaks instead
    raw: bytes | None = None  # the body as it is, instead of the content


Serve = Callable[[WireRequest], Awaitable[WireAnswer]]


class LoopbackListener:
    """Listens on a free port of 127.0.0.1."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Its URL."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, "127.0.0.1", 0, backlog=512)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        """Cut off every connection."""
        assert self._server
        self._server.close()
        for connection in list(self._connections):
            connection.abort()

    def _connection(self) -> _Connection:
        return _Connection(self._serve, self._connections)


class _Connection(asyncio.Protocol):
    """Reads a request, answers it, and reads the next. A client that goes away ends what it waits for."""

    def __init__(self, serve: Serve, connections: set[_Connection]) -> None:
        self._serve = serve
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._request = WireRequest()
        self._waiting: list[WireRequest] = []
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)
        if self._task:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._close()

    # ------------------------------------------------------------------------------------------- what the parser calls

    def on_url(self, url: bytes) -> None:
        self._request.target += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._request.method = self._parser.get_method().decode()
        if self._transport and self._request.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._request.body += body
        if len(self._request.body) > LARGEST:
            self._close()

    def on_message_complete(self) -> None:
        self._waiting.append(self._request)
        self._request = WireRequest()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._answer_all())

    # -----------------------------------------------------------------------------------------------------------------

    async def _answer_all(self) -> None:
        while self._waiting:
            request = self._waiting.pop(0)
            answer = await self._serve(request)
            if answer.is_lost:
                self._close()
            elif self._transport:
                self._transport.write(_written(answer))
                if request.headers.get("connection", "").lower() == "close":
                    self._close()
        self._task = None

    def abort(self) -> None:
        if self._transport:
            self._transport.abort()

    def _close(self) -> None:
        if self._transport:
            self._transport.close()


def _written(answer: WireAnswer) -> bytes:
    body = b"" if answer.content is None else json.dumps(answer.content).encode()
    body = body if answer.raw is None else answer.raw
    headers = {"Content-Type": "application/json; charset=utf-8", **answer.headers, "Content-Length": str(len(body))}
    if answer.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        headers.pop("Content-Length")
        headers.pop("Content-Type")
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", *(f"{n}: {v}" for n, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
