"""Connections: uvicorn's, with bounds that slow and greedy clients meet, and a short way for heartbeats.

    bytes ──▶ Unread ──▶ parser ──▶ headers complete: RequestGate ──▶ body ──▶ heartbeats, or the application
                 ▲                        │ refused
                 └── held back ──┐        └──▶ answer, hang up; nothing more is parsed
                                 │
    while a request is being answered, the client does not read its answers, or the application does not read the body

A connection serves one request at a time: the parser sees the next one when the last is answered. It is given a
bounded number of bytes in each turn of the loop, as bytes in the smallest chunks are a callback each.

A heartbeat needs none of what a request usually gets (a task, a scope, an event): its body goes straight to
`Heartbeats.receive`, and the answer straight to the socket; measured, that saves a quarter of the whole price.
"""

import asyncio
from typing import Any, cast

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bullpen.auth.tokens import Speaker
from bullpen.server.authentication import UnknownToken
from bullpen.server.exchange import Exchange, Flow, rendered
from bullpen.server.gate import RequestGate
from bullpen.server.head import Head, head_of
from bullpen.server.heartbeats import BATCH, LARGEST, SINGLE, Heartbeats
from bullpen.server.paths import routed
from bullpen.server.problems import Problem, bad_input, too_large
from bullpen.server.unread import END, Unread

MOST_CONNECTIONS = 20_000
MOST_TOLD = 50  # connections above the limit that get an answer; each holds a descriptor until its client has read it
LARGEST_HEAD = 16 * 1024  # bytes of request line and headers; of trailers, too
TURN = 16 * 1024  # bytes parsed in one turn of the loop: two milliseconds' worth in the smallest chunks
PATIENCE = 10.0  # seconds for a client to send a request whole, from its first byte, or from connecting
LINGER = 2.0  # seconds for a client to read why it was refused, while what it still sends is thrown away
STUCK = 30.0  # seconds without a byte taken by a client that has answers to read
PATHS = {path.encode(): path for path in (SINGLE, BATCH)}


class Connection(HttpToolsProtocol):
    """One client. `heartbeats` and `gate` are set on a subclass of one server, see `connections_for`."""

    heartbeats: Heartbeats
    gate: RequestGate
    most = MOST_CONNECTIONS
    largest = LARGEST
    patience = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(transport, self.go_on)
        self._unread = Unread()
        self._next_turn: asyncio.Handle | None = None
        self._parsing = self._reads_paused = False
        self._begin_head()
        self._block = b""  # the piece with which the head began
        self._known: tuple[bytes, int, str, Head] | None = None  # the head of the last beat, see `_receives_again`
        self._since: float | None = self.loop.time()  # when the request began that has not arrived whole
        self._idle_since: float | None = None  # when the last answer was complete, while no request follows
        self._ended: float | None = None  # when the last answer was sent; what arrives since is discarded
        self._is_last = False
        self._unsent, self._moved_at = 0, self.loop.time()
        if len(self.connections) > self.most + MOST_TOLD:
            self.transport.abort()
        elif len(self.connections) > self.most:
            self._hang_up(Problem(503, "too many connections", headers={"retry-after": "5"}))

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = self.loop.time()
        self._unread.clear()
        super().connection_lost(exc)

    def check(self, now: float) -> None:
        """Close the connection of a client that is idle, or takes too long to send a request or to read an answer."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._moved_at = unsent, now
        if (unsent and now - self._moved_at > STUCK) or (self._ended is not None and now - self._ended > LINGER):
            self.transport.abort()
        elif self._since is not None and now - self._since > self.patience:
            self._give_up()
        elif self._idle_since is not None and not unsent and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()

    # ---- bytes

    def data_received(self, data: bytes) -> None:
        if self._ended is not None or self._receives_again(data):
            return
        self._unread.add(data)
        if self._next_turn is None:
            self._parse()

    def _receives_again(self, data: bytes) -> bool:
        """Take a whole beat whose head is that of the last one, byte for byte: the parser would find the same in it.
        Clients repeat their heads, and parsing is half of what a beat costs this thread."""
        if self._known is None or self._framing or len(self._unread) or not self._whole or self._is_answering():
            return False
        head, size, path, found = self._known
        if len(data) != size or not data.startswith(head) or not self._may_go_on():
            return False
        try:
            speaker = self.gate.admit(path, found, self.client[0] if self.client else None)
        except Problem:
            return False  # the parser finds the same request, and it is refused there
        self._idle_since = None
        exchange = Exchange(self._answer)
        self.cycle = cast(Any, exchange)
        self.heartbeats.receive(path, speaker, data[len(head) :], exchange.reply)
        return True

    def go_on(self) -> None:
        """Parse what was held back, if anything was, in the next turn of the loop."""
        if not len(self._unread):
            self._settle_reading()
        elif self._next_turn is None and not self._parsing and self._ended is None:
            self._next_turn = self.loop.call_soon(self._parse)

    def _parse(self) -> None:
        self._next_turn = None
        self._parsing = True
        left = TURN
        while left > 0 and self._may_parse():
            self._idle_since = None
            if self._since is None:
                self._since = self.loop.time()
            piece = self._next_piece(left)
            left -= len(piece)
            self._block = piece if self._framing == 0 else b""
            self._framing += len(piece)
            if self._in_head and self._framing > LARGEST_HEAD:
                self._hang_up(_too_much("headers"))
                break
            self._feed(piece)
            if self._head.chunked and self._framing > LARGEST_HEAD:
                self._hang_up(_too_much("trailers"))
        self._parsing = False
        if self._may_parse():
            self.go_on()
        self._settle_reading()

    def _may_parse(self) -> bool:
        return len(self._unread) > 0 and self._ended is None and self._may_go_on() and not self._is_answering()

    def _may_go_on(self) -> bool:
        paused = self.flow.read_paused or self.flow.write_paused
        return not (paused or self._is_last or self.transport.is_closing())

    def _is_answering(self) -> bool:
        exchange: Any = self.cycle
        return self._whole and exchange is not None and not exchange.response_complete

    def _next_piece(self, most: int) -> bytes:
        if self._in_head or self._head.chunked:
            return self._unread.take_block(most)
        return self._unread.take(min(most, self._left))

    def _feed(self, piece: bytes) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._is_last = True  # there is nothing to upgrade to, and the parser does not find the next request
            if self._ended is None and not self._is_answering():
                self.transport.close()
        except httptools.HttpParserError:
            if self._ended is None:
                self._hang_up(bad_input("the request is not valid HTTP"))

    def _settle_reading(self) -> None:
        """Read from the socket only when everything read before is parsed."""
        if self.transport.is_closing():
            return
        pause = self._ended is None and (len(self._unread) > 0 or self.flow.read_paused)
        if pause != self._reads_paused:
            self._reads_paused = pause
            (self.transport.pause_reading if pause else self.transport.resume_reading)()

    # ---- what the parser finds

    def _begin_head(self) -> None:
        self._in_head, self._whole, self._is_for_head = True, False, False
        self._head = Head()
        self._left = 0  # bytes of a body of declared length
        self._framing = 0  # bytes parsed since the head began, or since the last byte of the body: the parser collects
        # a header or trailer until it ends

    def on_message_begin(self) -> None:
        # The scope is made when the request goes to the application: a heartbeat needs none.
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers come when everything was decided by the headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._framing = 0
        path = PATHS.get(self.url) or routed(httptools.parse_url(self.url).path)
        try:
            self._head = head_of(self.headers)
        except Problem as problem:
            self._hang_up(problem)
            return
        if self._head.cookie is not None:  # only a session asks for the method
            self._head.method = self.parser.get_method().decode("latin-1")
        self._left = self._head.length or 0
        caller: dict[str, Speaker | None] = {}
        try:
            caller["speaker"] = self.gate.admit(path, self._head, self.client[0] if self.client else None)
        except UnknownToken:
            pass  # the application reads the tokens again, and reads no body before that
        except Problem as problem:
            self._refuse(problem)
            return
        if self.parser.should_upgrade() and self._head.has_body:  # the parser would leave the body out
            self._hang_up(bad_input("a request with a body cannot ask for an Upgrade", "upgrade"))
            return
        is_beat = self.parser.get_method() == b"POST" and self.url in PATHS
        if is_beat and caller and not self.expect_100_continue:
            exchange = Exchange(self._answer, path, caller["speaker"], self.parser.should_keep_alive())
            self.cycle = cast(Any, exchange)
            self._known = None
            if exchange.keep_alive and self._block.endswith(END) and self._head.length is not None:
                self._known = (self._block, len(self._block) + self._head.length, path, self._head)
            return
        self._make_scope(caller)
        super().on_headers_complete()

    def _make_scope(self, caller: dict[str, Speaker | None]) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers  # the scope has this very list
        self.scope["state"].update(caller)

    def on_body(self, body: bytes) -> None:
        self._left -= len(body)
        self._framing = 0
        exchange: Any = self.cycle
        if self._ended is not None:
            return
        if not isinstance(exchange, Exchange):
            super().on_body(body)
        elif not exchange.response_complete:
            exchange.body += body
            if len(exchange.body) > self.largest[exchange.path]:
                self._hang_up(too_large(self.largest[exchange.path]))

    def on_message_complete(self) -> None:
        exchange: Any = self.cycle
        if self._ended is not None:
            return
        self._since = None
        self._begin_head()
        self._whole = True
        if not isinstance(exchange, Exchange):
            super().on_message_complete()
        elif not exchange.response_complete:
            self.heartbeats.receive(exchange.path, exchange.speaker, bytes(exchange.body), exchange.reply)

    # ---- answers

    def _answer(self, status: int, body: bytes, headers: dict[str, str], keep_alive: bool) -> None:
        self._write(status, body, headers, keep_alive)
        self.on_response_complete()

    def on_response_complete(self) -> None:
        # Instead of the inherited method, which sets a timer for the idle connection: `check` sees to it.
        self.server_state.total_requests += 1
        self._idle_since = self.loop.time()
        self.flow.read_paused = False
        if self._is_last and not self.transport.is_closing():
            self.transport.close()
        self.go_on()

    def _refuse(self, problem: Problem) -> None:
        """Answer without a look at the body. If there is one, it is not awaited either."""
        self._is_for_head = self.parser.get_method() == b"HEAD"
        if self._head.has_body or not self.parser.should_keep_alive():
            self._hang_up(problem)
            return
        exchange = Exchange(self._answer)
        self.cycle = cast(Any, exchange)
        exchange.reply(problem.status, msgspec.json.encode(problem.answer), problem.headers)

    def _give_up(self) -> None:
        exchange: Any = self.cycle
        if not self._in_head and exchange is not None and exchange.response_complete:
            self.transport.close()  # it was answered without its body being read
            return
        self._hang_up(Problem(408, "the request took too long to arrive"))

    def _hang_up(self, problem: Problem) -> None:
        """Send the last answer of this connection. What still arrives is discarded until the client has read it:
        closing at once would take the answer back."""
        self._since, self._ended = None, self.loop.time()
        self._unread.clear()
        exchange: Any = self.cycle
        if isinstance(exchange, Exchange):
            exchange.response_complete = True
        elif exchange is not None and not exchange.response_complete:
            if exchange.response_started:
                self.transport.close()  # it would come in the middle of the application's answer
                return
            exchange.scope["state"]["refused"] = True  # its task may not have begun
            exchange.disconnected = True
            exchange.message_event.set()
        self._write(problem.status, msgspec.json.encode(problem.answer), problem.headers, keep_alive=False)
        self._settle_reading()

    def _write(self, status: int, body: bytes, headers: dict[str, str], keep_alive: bool) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(rendered(status, body, headers, keep_alive, for_head=self._is_for_head))
        if not keep_alive and self._ended is None:
            self.transport.close()
        elif not keep_alive:
            self.transport.write_eof()


def _too_much(what: str) -> Problem:
    return bad_input(f"the {what} are too large", what, allowed=f"at most {LARGEST_HEAD} bytes", status=431)


def connections_for(heartbeats: Heartbeats, gate: RequestGate, most: int = MOST_CONNECTIONS) -> type[Connection]:
    """The connections of one server, which holds so many of them."""
    return type("ServedConnection", (Connection,), {"heartbeats": heartbeats, "gate": gate, "most": most})
