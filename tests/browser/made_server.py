"""A server that shows the dashboard's files with answers that a test makes: for states that a real pool seldom has, and
for pictures. It speaks HTTP and the event stream as `bullpen serve` does."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from bullpen.server.dashboard_files import file_answer

Answer = Any
"""What is sent as JSON; a pair of a status and a body; or a function of the path that returns one of them."""

MISSING = (404, {"code": "no-such-endpoint", "error": "no such endpoint"})


@dataclass
class MadeServer:
    """`answers` by path, with the query or without; of others by the longest beginning that ends in `/`."""

    answers: Mapping[str, Answer]
    beginning: list[tuple[str, object]] = field(default_factory=list)
    url: str = ""
    asked: list[tuple[str, str, bytes]] = field(default_factory=list)
    is_over: bool = False  # a browser keeps connections, and would go on to use them
    is_mute: bool = False  # streams stay open and bring nothing: a network that was cut in silence
    streams: int = 0  # that were opened
    _watchers: list[queue.Queue[tuple[str, object] | None]] = field(default_factory=list)

    def tell(self, kind: str, data: object) -> None:
        for watcher in list(self._watchers):
            watcher.put((kind, data))

    def watching(self) -> int:
        """Streams that are open."""
        return len(self._watchers)

    def cut(self) -> None:
        """End every stream."""
        for watcher in list(self._watchers):
            watcher.put(None)

    def answer(self, path: str, query: str = "") -> tuple[int, object]:
        found: Any = self.answers.get(f"{path}?{query}") or self.answers.get(path)
        if found is None:
            beginnings = [one for one in self.answers if one.endswith("/") and path.startswith(one)]
            found = self.answers[max(beginnings, key=len)] if beginnings else MISSING
        if isinstance(found, Callable):  # type: ignore[arg-type]
            found = found(path)
        return found if isinstance(found, tuple) else (200, found)

    def stream(self) -> Iterator[bytes]:
        watcher: queue.Queue[tuple[str, object] | None] = queue.Queue()
        self._watchers.append(watcher)
        self.streams += 1
        try:
            yield b"retry: 2000\n\n"
            yield b"".join(_event(*one) for one in self.beginning)
            while True:
                try:
                    one = watcher.get(timeout=0.25)
                except queue.Empty:
                    if not self.is_mute:
                        yield b": still here\n\n"  # a closed page is noticed by it
                    continue
                if one is None:
                    return
                yield _event(*one)
        finally:
            self._watchers.remove(watcher)


def _event(kind: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))


@contextmanager
def made_server(made: MadeServer) -> Iterator[MadeServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def parse_request(self) -> bool:
            if made.is_over:
                self.close_connection = True
                return False
            return super().parse_request()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if path == "/v1/events":
                return self._stream()
            name = "index.html" if path == "/" else path.removeprefix("/dashboard/")
            if (path == "/" or path.startswith("/dashboard/")) and (file := file_answer(name)) is not None:
                return self._send(file.status, file.body, file.headers)
            return self._answer(path, urlsplit(self.path).query)

        def do_POST(self) -> None:
            path = unquote(urlsplit(self.path).path)
            made.asked.append(("POST", path, self.rfile.read(int(self.headers.get("content-length") or 0))))
            self._answer(path)

        def do_DELETE(self) -> None:
            path = unquote(urlsplit(self.path).path)
            made.asked.append(("DELETE", path, b""))
            self._answer(path)

        def _answer(self, path: str, query: str = "") -> None:
            status, body = made.answer(path, query)
            kind = "application/json"
            if isinstance(body, str):
                body, kind = body.encode(), "text/plain; charset=utf-8"
            sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
            self._send(status, sent, {"content-type": kind, "bullpen-version": "0.1.0"})

        def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            with suppress(OSError):
                for part in made.stream():
                    self.wfile.write(part)
                    self.wfile.flush()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.is_over = True
        made.cut()
        server.shutdown()
        server.server_close()
        thread.join()
