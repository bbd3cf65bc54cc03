"""Connections: uvicorn's, with bounds that slow and greedy clients meet, and a short way for heartbeats.

A heartbeat needs none of what a request usually gets (a task, a scope, an event): its body goes straight to
`Heartbeats.receive`, and the answer straight to the socket; measured, that saves a quarter of the whole price. Requests
that are pipelined behind another one take the ordinary way, which keeps answers in order.
"""

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bullpen.web.heartbeats import BATCH, LARGEST, SINGLE, Heartbeats, too_large

MOST_CONNECTIONS = 20_000
LARGEST_HEAD = 16 * 1024  # bytes of request line and headers
PATIENCE = 10.0  # seconds for a client to send a request whole, from its first byte, or from connecting
PATHS = {path.encode(): path for path in (SINGLE, BATCH)}


class _Exchange:
    """A heartbeat on its way, with what the connection asks of any exchange."""

    __slots__ = ("body", "disconnected", "keep_alive", "more_body", "path", "response_complete")

    def __init__(self, path: str, keep_alive: bool) -> None:
        self.path = path
        self.keep_alive = keep_alive
        self.body = b""
        self.more_body = True
        self.response_complete = False
        self.disconnected = False

    @property
    def message_event(self) -> "_Exchange":
        return self

    def set(self) -> None:
        """Nobody waits for its parts."""


class Connection(HttpToolsProtocol):
    """One client. `heartbeats` is set on a subclass of one server, see `connections_for`."""

    heartbeats: Heartbeats
    most = MOST_CONNECTIONS
    largest = LARGEST
    patience = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = 0
        self._since: float | None = self.loop.time()
        if len(self.connections) > self.most:
            self._write(503, b'{"error":"too many connections"}', {"retry-after": "5"}, keep_alive=False)

    def overdue(self, now: float) -> bool:
        """Whether the client takes too long to say what it wants."""
        return self._since is not None and now - self._since > self.patience

    def give_up(self) -> None:
        """Tell a client that took too long, and hang up."""
        self._since = None
        exchange: Any = self.cycle
        if exchange is not None and not exchange.response_complete and not isinstance(exchange, _Exchange):
            self.transport.close()  # the application may have begun to answer
            return
        self._write(408, b'{"error":"the request took too long to arrive"}', {}, keep_alive=False)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self._since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._head += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._head += len(name) + len(value)
        if self._head > LARGEST_HEAD:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        path = PATHS.get(self.url)
        before: Any = self.cycle
        is_free = before is None or before.response_complete
        if path is None or not is_free or self.expect_100_continue or self.parser.get_method() != b"POST":
            super().on_headers_complete()
            return
        exchange: Any = _Exchange(path, keep_alive=self.parser.should_keep_alive())
        self.cycle = exchange

    def on_body(self, body: bytes) -> None:
        exchange: Any = self.cycle
        if not isinstance(exchange, _Exchange):
            super().on_body(body)
        elif not exchange.response_complete:
            exchange.body = exchange.body + body if exchange.body else body
            if len(exchange.body) > self.largest[exchange.path]:
                problem = too_large(exchange.path)
                self._since = None
                exchange.response_complete = True
                self._write(problem.status, msgspec.json.encode(problem.answer), {}, keep_alive=False)

    def on_message_complete(self) -> None:
        self._since = None
        exchange: Any = self.cycle
        if not isinstance(exchange, _Exchange):
            super().on_message_complete()
        elif not exchange.response_complete:
            exchange.more_body = False

            def reply(status: int, body: bytes, headers: dict[str, str]) -> None:
                if exchange.response_complete or exchange.disconnected:
                    return
                exchange.response_complete = True
                self._write(status, body, headers, exchange.keep_alive)
                self.on_response_complete()

            peer = self.client[0] if self.client else None
            self.heartbeats.receive(exchange.path, self.headers, exchange.body, reply, peer)

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            self._since = None
            self._write(431, b'{"error":"the headers are too large","field":"headers"}', {}, keep_alive=False)

    def _write(self, status: int, body: bytes, headers: dict[str, str], keep_alive: bool) -> None:
        if self.transport.is_closing():
            return
        head = [STATUS_LINE[status], b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)]
        head += [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
        if not keep_alive:
            head.append(b"connection: close\r\n")
        self.transport.write(b"".join([*head, b"\r\n", body]))
        if not keep_alive:
            self.transport.close()


def connections_for(heartbeats: Heartbeats, most: int = MOST_CONNECTIONS) -> type[Connection]:
    """The connections of one server, which holds so many of them."""
    return type("ServedConnection", (Connection,), {"heartbeats": heartbeats, "most": most})
